"""DeepSeek-MoE as a model folder brings it along: model_deepseek.py for transformers' trust_remote_code.

Stands in the tests for the file of the same name that is published with the model.
"""
import json
import os

from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from .model_deepseek import DeepseekMoE

AUTO_MAP = {"AutoConfig": "modeling_deepseek.DeepseekConfig",
            "AutoModelForCausalLM": "modeling_deepseek.DeepseekForCausalLM"}


class DeepseekConfig(PretrainedConfig):
    model_type = "deepseek"


class DeepseekForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = DeepseekConfig

    def __init__(self, config):
        super().__init__(config)
        # As published: transformers rewrites some keys when it reads them.
        with open(os.path.join(config._name_or_path, "config.json"), encoding="utf-8") as file:
            plain = DeepseekMoE(json.load(file))
        self.model, self.lm_head = plain.model, plain.lm_head
        self.post_init()

    def forward(self, input_ids, **_):
        return CausalLMOutputWithPast(logits=DeepseekMoE.forward(self, input_ids[0])[None])
