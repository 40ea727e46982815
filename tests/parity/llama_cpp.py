"""llama.cpp for the parity scripts: its converter and its server, on small models.

The converter is that of a checkout (convert_hf_to_gguf.py). It refuses tokenizers it does not know, as our small ones;
prompts are sent as ids, so only the texts of their tokens go along, of byte-level BPE. The server is `llama-server` of the checkout's build/bin, or
that of the package xllamacpp.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import torch

SERVE = """
import sys, time, xllamacpp
model, lora, port = sys.argv[1:4]
params = xllamacpp.CommonParams()
params.model.path = model
params.hostnames = ["127.0.0.1"]
params.port = int(port)
params.n_ctx = 1024
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.warmup = False
params.fit_params = False
params.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_F32
params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
params.n_gpu_layers = 0
if lora:
    params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(lora, 1.0)]
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(1)
"""


def convert(root, folder, out, outtype="ALL_F32"):
    """A model's folder as GGUF."""
    sys.path[:0] = [path for path in (os.path.join(root, "gguf-py"), root) if path not in sys.path]
    import conversion  # pylint: disable=import-error,import-outside-toplevel
    import gguf  # pylint: disable=import-error,import-outside-toplevel
    config = conversion.ModelBase.load_hparams(pathlib.Path(folder), False)
    kind = conversion.get_model_class(conversion.get_model_architecture(config, conversion.ModelType.TEXT))
    with torch.inference_mode():
        model = kind(pathlib.Path(folder), gguf.LlamaFileType[outtype], pathlib.Path(out))

        def set_vocab():
            texts = token_texts(folder, config["vocab_size"])
            model.gguf_writer.add_tokenizer_model("gpt2")
            model.gguf_writer.add_tokenizer_pre("gpt-2")
            model.gguf_writer.add_token_list(texts)
            model.gguf_writer.add_token_types([gguf.TokenType.NORMAL] * len(texts))
            model.gguf_writer.add_token_merges([texts[3] + " " + texts[4]])
            model.gguf_writer.add_eos_token_id(2)

        model.set_vocab = set_vocab
        model.write()


def token_texts(folder, count):
    """Of every id; made up where the folder's tokenizer has none."""
    texts = [chr(0x4e00 + i) for i in range(count)]
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        for text, id in json.load(file)["model"]["vocab"].items():
            texts[id] = text
    return texts


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """llama.cpp's server with a model and perhaps an adapter; in float32 throughout, without caches of 16 bits."""

    def __init__(self, root, model, lora="", log=None):
        self.port = free_port()
        binary = os.path.join(root or "", "build", "bin", "llama-server")
        if root and os.path.exists(binary):
            command = [binary, "-m", model, "--host", "127.0.0.1", "--port", str(self.port), "-c", "1024", "-np", "1",
                       "-t", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off", "--no-warmup",
                       *(["--lora", lora] if lora else [])]
        else:
            command = [sys.executable, "-c", SERVE, model, lora, str(self.port)]
        self.log = open(log, "w+", encoding="utf-8") if log else tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        for _ in range(600):
            if self.process.poll() is not None:
                self.log.seek(0)
                raise RuntimeError(f"llama.cpp's server ended: {self.log.read()[-600:]}")
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5) as reply:
                    if reply.status == 200:
                        return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError("llama.cpp's server does not answer")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as reply:
            return json.load(reply)

    def complete(self, ids, count, probabilities):
        """Greedy ids, and of each position the likeliest tokens: [{id: log-probability}]."""
        reply = self.post("/completion", {"prompt": ids, "n_predict": count, "temperature": 0, "seed": 1,
                                          "n_probs": probabilities, "return_tokens": True, "cache_prompt": False})
        rows = reply["completion_probabilities"]
        return [row["id"] for row in rows], [{top["id"]: top["logprob"] for top in row["top_logprobs"]} for row in rows]
