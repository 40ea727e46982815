"""A small server that speaks vLLM's dialect, on 127.0.0.1: adapters are computed by transformers and PEFT, in bf16.

What of vLLM matters here: /v1/completions takes a prompt of ids, gives up to 20 log-probabilities and the token that was
drawn, tokens are named by their decoded text, and names it does not know are refused with a 404. With `fp8` the base's
linear layers and experts are rounded to float8 (e4m3, a scale for each row), and the pairs are added to them.
"""
import http.server
import json
import threading

import peft
import torch
import transformers

MOST = 20


def round_to_fp8(model):
    for name, value in model.named_parameters():
        if value.dim() < 2 or any(word in name for word in ("embed", "lm_head", "mlp.gate.weight")):
            continue
        scale = value.abs().amax(-1, keepdim=True).clamp(min=1e-12) / torch.finfo(torch.float8_e4m3fn).max
        value.data = (value / scale).to(torch.float8_e4m3fn).float() * scale


class VllmServer:
    """`names`: {name: adapter's folder, or None for the base}."""

    def __init__(self, base, names, fp8=False):
        self.base, self.fp8, self.names = base, fp8, names
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(base)
        self.open_name, self.model, self.lock = None, None, threading.Lock()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, reply = owner.answer(self.path, asked)
                body = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def open(self, name):
        if name == self.open_name:
            return
        model = transformers.AutoModelForCausalLM.from_pretrained(self.base, dtype=torch.float32).eval()
        if self.fp8:
            round_to_fp8(model)
        model = model.to(torch.bfloat16)
        if self.names[name] is not None:
            model = peft.PeftModel.from_pretrained(model, self.names[name]).eval()
        self.model, self.open_name = model, name

    def answer(self, path, asked):
        name, logs = asked.get("model"), asked.get("logprobs")
        if path != "/v1/completions":
            return 404, {"detail": "Not Found"}
        if name not in self.names:
            return 404, {"error": {"message": f"The model `{name}` does not exist.", "type": "NotFoundError",
                                   "param": "model", "code": 404}}
        if logs is None or logs > MOST:
            return 400, {"error": {"message": f"Requested sample logprobs of {logs}, which is greater than max allowed: "
                                   f"{MOST}", "type": "BadRequestError", "param": "logprobs", "code": 400}}
        with self.lock, torch.no_grad():
            self.open(name)
            row = torch.log_softmax(self.model(torch.tensor([asked["prompt"]])).logits[0, -1].float(), -1)
        drawn = int(torch.multinomial(row.exp(), 1))
        ids = dict.fromkeys([drawn, *row.topk(logs).indices.tolist()])
        top = {self.tokenizer.decode([id]): float(row[id]) for id in ids}
        text = self.tokenizer.decode([drawn])
        return 200, {"id": "cmpl-0", "object": "text_completion", "model": name, "choices": [
            {"index": 0, "text": text, "finish_reason": "length", "stop_reason": None, "prompt_logprobs": None,
             "logprobs": {"text_offset": [0], "token_logprobs": [float(row[drawn])], "tokens": [text],
                          "top_logprobs": [top]}}], "usage": {"prompt_tokens": len(asked["prompt"]), "total_tokens":
                                                             len(asked["prompt"]) + 1, "completion_tokens": 1}}
