/* The verbs, in the order --help lists them. */
#include "cli/verbs.h"

const struct cli_verb cli_verbs[] = {
    {
        .name = "adapter",
        .summary = "an adapter in another layout, and the lines of Python that load it",
        .arguments = "ADAPTER --model DIR",
        .details =
            "ADAPTER is the folder of a PEFT adapter, as metier train or PEFT writes it, DIR that of its "
            "model.\n"
            "Printed are its layout and the lines of Python that load it; with --out it is written anew, "
            "with\n"
            "the same values, in the layout that\n"
            "  auto        PEFT with transformers >= 5.22 loads right for this model\n"
            "  fused       transformers 5 has: one pair for all experts of a layer\n"
            "  per-expert  transformers 4 has: a pair for each map of each expert, names of the checkpoint\n"
            "  vllm        vLLM insists on: per-expert, with zeros for experts that have no pair\n"
            "The folder appears whole or not at all. docs/adapters.md says what is right where.",
        .examples = "  metier adapter runs/first/adapter --model models/moe\n"
                    "  metier adapter runs/first/adapter --model models/moe --layout vllm --out "
                    "runs/first/adapter-vllm\n"
                    "  metier adapter downloaded --model models/moe --out for-transformers-5",
        .run = cli_adapter,
    },
    {
        .name = "analyze",
        .summary = "what the experts became: balance, specialisation, affinity to domains, drift",
        .arguments = "--model DIR --data FILE[=DOMAIN] ... --out DIR",
        .details =
            "Runs data through a model and watches its routers and experts: load and MaxVio, routing\n"
            "variance, overlap and silhouette of inputs and expert outputs, |cos| between a token's expert\n"
            "outputs, which expert serves which domain; with --adapter or --base also how far routing moved\n"
            "from the base, on the same tokens. A domain is a file, or the files of the same =DOMAIN.\n"
            "Under mpirun ranks share the batches; the figures are the same.\n"
            "OUT/analysis.json has every figure by layer and domain; metier report OUT shows it, beside the\n"
            "log when OUT is the folder of a run. docs/analysis.md has the formulas.",
        .examples =
            "  metier analyze --model models/moe --data math.jsonl --data code.jsonl --out runs/base\n"
            "  metier analyze --model models/moe --adapter runs/first/adapter --data math.jsonl \\\n"
            "      --out runs/first     # beside the run's log: metier report runs/first shows both\n"
            "  metier analyze --model models/merged --base models/moe --data wiki.txt --out runs/merged "
            "--layers\n"
            "  metier analyze --model models/moe --data math.jsonl --experts experts.json   # for train's "
            "experts=experts.json",
        .ranks = CLI_RANKS_SHARE,
        .run = cli_analyze,
    },
    {
        .name = "chat",
        .summary = "talk with a model in the terminal",
        .arguments = "DIR",
        .details =
            "DIR is a Hugging Face model folder. Its own chat template writes the conversation out, unless\n"
            "--template names another: one of those that come along (share/templates) or a file. Sampling "
            "is\n"
            "as generation_config.json says, greedy where it says nothing, unless options say otherwise.\n"
            "/reset begins a new conversation, /quit or Ctrl-D ends; Ctrl-C stops an answer.",
        .examples = "  metier chat models/Moonlight-16B-A3B-Instruct\n"
                    "  metier chat models/moe --adapter runs/first/adapter --temperature 0.7\n"
                    "  metier chat models/moe --template chatml --system 'You answer in one sentence.'",
        .run = cli_chat,
    },
    {
        .name = "compare",
        .summary = "methods on domains with seeds: trained, measured, held against each other",
        .arguments = "CONFIG.yaml [KEY=VALUE ...]",
        .details =
            "Every method is trained on every domain with every seed, a cell each, and measured on held-out\n"
            "problems of that domain and of the others. Out come tables, OUT/compare.json and\n"
            "OUT/report.html: accuracy with significance, balance, geometry, curves, a picture of tokens,\n"
            "sensitivity, seconds per step. Cells that are done are not repeated: the same command goes on\n"
            "after a stop of any kind, unless model or data hold something else than when a cell was made.\n"
            "A cell that fails is named and the others go on; the exit status is then 1.\n"
            "--keys lists the keys of the file; docs/compare.md explains them.",
        .examples =
            "  metier compare share/configs/compare-demo.yaml\n"
            "  metier compare share/configs/compare-paper.yaml --markdown tables.md\n"
            "  metier compare share/configs/compare-demo.yaml out=again seeds=[1,2,3] training.steps=50",
        .run = cli_compare,
    },
    {
        .name = "devices",
        .summary = "what can compute here, and with which kernels",
        .arguments = "",
        .examples = "  metier devices\n  METIER_CPU_LEVEL=v3 metier devices --threads 1",
        .ranks = CLI_RANKS_EACH,
        .run = cli_devices,
    },
    {
        .name = "eval",
        .summary = "put benchmark tasks to a model, or judge answers: GSM8K, MATH-500, MMLU, BBH, GLUE, "
                   "HumanEval, ...",
        .arguments = "TASK... --model DIR",
        .details =
            "Reads the tasks' questions from the folder of data, has the model answer them (or takes "
            "answers\n"
            "from a file), judges them and writes OUT/samples_TASK.jsonl (a line for each sample),\n"
            "OUT/routing_TASK.json (which experts the task used) and OUT/results.json (figures with "
            "standard\n"
            "error and 95 % interval, laid out as lm-evaluation-harness does). Started again, the same "
            "command\n"
            "goes on where it was killed or stopped: Ctrl-C keeps what is finished. Under mpirun ranks "
            "share\n"
            "the samples, and write what one writes. Answers of a file are JSONL:\n"
            "  {\"task\": \"gsm8k\", \"id\": \"0\", \"answer\": \"... #### 18\"}\n"
            "A TASK is a name of --list, a group (glue, bbh), one of a family (mmlu_anatomy) or a file of "
            "your\n"
            "own. HumanEval and MBPP run what the model wrote, in a sandbox (metier sandbox --check).\n"
            "docs/evaluation.md describes task files and data.",
        .examples = "  metier eval --list\n"
                    "  metier eval --tasks gsm8k,mmlu --data data --model models/moe     # into eval-moe\n"
                    "  metier eval --tasks gsm8k,mmlu --data data --model models/moe --adapter "
                    "runs/first/adapter \\\n"
                    "      --out runs/first     # beside the run's log: metier report runs/first shows both\n"
                    "  mpirun -n 4 metier eval --tasks gsm8k,mmlu --data data --model models/moe\n"
                    "  metier eval humaneval --data data --model models/moe --samples 20 --pass-k 10 --out "
                    "runs/code\n"
                    "  metier eval glue --skip-missing --limit 50 --shots 0 --data data --model models/moe "
                    "--out runs/glue\n"
                    "  metier eval gsm8k math500 --data data --questions questions.jsonl\n"
                    "  metier eval gsm8k math500 --data data --answers theirs.jsonl --out runs/eval\n"
                    "  metier eval --merge-review review.json --out runs/eval",
        .ranks = CLI_RANKS_SHARE,
        .run = cli_eval,
    },
    {
        .name = "forward",
        .summary = "run a model on token ids: logits, hidden states, routing, gradients, as a file",
        .arguments = "DIR",
        .details =
            "DIR is a Hugging Face model folder. The file holds logits [T,V] and, for every layer L,\n"
            "hidden.L [T,d] as it leaves the layer, router_logits.L [T,n], experts.L [T,k] and\n"
            "weights.L [T,k] where the layer has experts; sequences are packed one after the other.\n"
            "With --grads also loss (the next id's mean cross-entropy, plus the method's terms), loss.h,\n"
            "loss.TERM (summed over layers, without weight), scale.TERM (the weight, per MoE layer),\n"
            "grad.NAME for everything that learns, and param.NAME for LoRA's own tensors. Evaluation\n"
            "mode, unless --training.",
        .examples =
            "  metier forward models/moe --ids 1,306,4658 --out out.safetensors\n"
            "  metier forward models/moe --ids-file sequences.txt --grads --out grads.safetensors\n"
            "  metier forward models/moe --ids 1,306,4658 --grads --train lora --targets attention,router\n"
            "  metier forward models/moe --ids 1,306,4658 --grads --method paper beta=1e-2 --json",
        .run = cli_forward,
    },
    {
        .name = "generate",
        .summary = "answers to prompts: one from the command line, or a file of them to a file",
        .arguments = "DIR",
        .details =
            "DIR is a Hugging Face model folder. Each row of FILE (JSONL, or JSON, CSV, TSV) has a\n"
            "\"prompt\", or \"messages\" of {role, content}. The model's own chat template writes them out, "
            "and\n"
            "a prompt is what a user says; --template names another one, --template none and a model "
            "without\n"
            "one make a prompt a plain text to go on from. Out comes JSONL, in\n"
            "the order of the rows: index, text, tokens, prompt_tokens, and finish: eos (the model ended "
            "it),\n"
            "stop (a --stop text came; it is left out) or length. Sampling is as generation_config.json "
            "says,\n"
            "greedy where it says nothing, unless options say otherwise. An answer depends on its prompt,\n"
            "its row's index and the seed, not on --batch. SIGINT ends after the answers at hand.",
        .examples =
            "  metier generate models/moe --prompt 'The capital of France is' --max-new 20\n"
            "  metier generate models/moe --in prompts.jsonl --out answers.jsonl --batch 16\n"
            "  metier generate models/moe --adapter runs/first/adapter --template none --in texts.jsonl\n"
            "  metier generate models/moe --prompt 'Once' --temperature 0.8 --top-p 0.95 --seed 7 --stop END",
        .run = cli_generate,
    },
    {
        .name = "init",
        .summary = "a model folder with random weights, from a config.json",
        .arguments = "",
        .details =
            "Writes a copy of the config and weights under the names the architecture has on disk: normal\n"
            "with mean 0, norms 1, biases 0. The same config, seed, type and deviation give the same bytes.\n"
            "A folder that already has weights is refused.",
        .examples =
            "  metier init --config config.json --seed 1 --out models/small\n"
            "  metier init --config config.json --seed 1 --dtype bf16 --std 0.006 --out models/narrow",
        .run = cli_init,
    },
    {
        .name = "inspect",
        .summary = "what a model folder holds: architecture, parameters, missing tensors, memory to train it",
        .arguments = "DIR",
        .details =
            "DIR is a Hugging Face model folder. config.json is enough for the counts; with\n"
            "model.safetensors.index.json the tensor names are checked too, with the weights also their\n"
            "shapes and types. Exit status 2 when a tensor is missing or of another shape.",
        .examples = "  hf download allenai/OLMoE-1B-7B-0924 --local-dir models/OLMoE-1B-7B    # metier "
                    "downloads nothing\n"
                    "  metier inspect models/OLMoE-1B-7B\n"
                    "  metier inspect models/Mixtral-8x7B --json\n"
                    "  metier inspect models/Moonlight-16B-A3B --rank 8 --tokens 16384",
        .run = cli_inspect,
    },
    {
        .name = "judge",
        .summary = "have a language model judge the answers of a run, through an OpenAI-compatible endpoint",
        .arguments = "RUN_DIR --endpoint URL --model NAME",
        .details =
            "RUN_DIR is what metier eval wrote. Every answer goes out with its question and reference; the\n"
            "verdicts (correct, incorrect, unsure) are appended to RUN_DIR/judge_TASK.jsonl, and agreement\n"
            "with the rules (and with a person, see metier review) is printed and stored in results.json.\n"
            "An answer that has a verdict is not asked about again: the same command goes on after a stop.\n"
            "The key is read from the environment and goes nowhere but to the endpoint. Exit status 1 when\n"
            "an answer got no verdict.",
        .examples =
            "  metier judge runs/eval --endpoint https://api.openai.com/v1 --model gpt-4.1\n"
            "  metier judge runs/eval --endpoint http://localhost:8000/v1 --model judge --parallel 16\n"
            "  metier judge runs/eval --endpoint https://host/v1 --model m --key-env MY_KEY --tasks gsm8k",
        .run = cli_judge,
    },
    {
        .name = "merge",
        .summary = "an adapter merged into its model: a complete model folder",
        .arguments = "DIR",
        .details =
            "DIR is a Hugging Face model folder. Weights become W + alpha/r B A, rounded once; config,\n"
            "tokenizer and every other small file are carried over, correction biases the adapter has are\n"
            "written back, or beside the weights (router_bias.metier) where the architecture has no tensor\n"
            "for them: other programs then route without them. Tensors are streamed, so memory is needed\n"
            "for a piece of one of them only. The folder appears whole or not at all. With\n"
            "--verify the exit status is 1 when the logits are further apart than 1e-4 (f32: root mean\n"
            "square) or 2e-2 (16 bits: median of tokens), relative.",
        .examples =
            "  metier merge models/moe --adapter runs/first/adapter --out models/merged --verify\n"
            "  metier merge models/moe --adapter runs/first/adapter --out models/merged-bf16 --dtype bf16",
        .run = cli_merge,
    },
    {
        .name = "objective",
        .summary = "a method's loss terms and their gradients, for one MoE layer's recorded arrays",
        .arguments = "--record IN --top-k K [--method NAME] [key=value ...] [--out OUT]",
        .details =
            "IN is a safetensors file; N tokens, n experts, K experts per token, width d:\n"
            "  logits          F32 [N,n]     needed\n"
            "  expert_outputs  F32 [N,K,d]   what the chosen experts gave, before weighting, in the order "
            "of\n"
            "                                a stable top-k: highest first, ties to the lowest index\n"
            "  mask            [N]           BOOL, U8, I32 or I64; 0 marks padding, which counts nowhere\n"
            "  sequence        [N]           I32 or I64; which sequence a token belongs to\n"
            "  router_weight   F32 [n,d]     for the terms on the router's rows\n"
            "  router_bias     F32 [n]       added to the scores for the choice only\n"
            "A term that needs an array IN does not have is refused.\n\n"
            "OUT, replaced in one step: loss.TERM and scale.TERM for every term that is on, and total\n"
            "(F32 of rank 0; total is the sum of scale times loss); grad.logits, grad.expert_outputs and\n"
            "grad.router_weight, as far as IN has the array; experts I32 [N,K] (-1: dropped), weights\n"
            "F32 [N,K]; with a bias rule also router_bias, after this step. Its metadata holds the keys.\n\n"
            "key=value changes one thing of the method: --keys lists what there is. docs/objective.md has\n"
            "the formulas, and a script that compares this with PyTorch.",
        .examples =
            "  metier objective --methods\n"
            "  metier objective --record layer.safetensors --top-k 6 --out answer.safetensors\n"
            "  metier objective --record layer.safetensors --top-k 6 --method metier beta=0 --json\n"
            "  metier objective --record layer.safetensors --router sigmoid --top-k 8 --normalise \\\n"
            "      --routed-scale 2.5 --groups 8 --groups-kept 4 --group-rule top2-sum --method aux",
        .run = cli_objective,
    },
    {
        .name = "plan",
        .summary = "memory, bytes on the wire and step time of LoRA training on many ranks, predicted",
        .arguments = "DIR",
        .details =
            "DIR holds a config.json; no weights are needed. Time is arithmetic at the sustained rate, plus\n"
            "messages of latency + bytes/bandwidth; sums of gradients hide behind the last backward. Where\n"
            "ranks share the experts, the fullest rank keeps the others waiting: with --max-violation the\n"
            "cost of imbalance is printed. With --nodes ranks of a machine are neighbours, and talk faster.\n"
            "docs/scaling.md has the formulas, and what they are worth.",
        .examples = "  metier plan models/OLMoE-1B-7B --ranks 8 --experts 8\n"
                    "  metier plan models/DeepSeek-V3 --nodes 16 --network infiniband-400 --experts 8\n"
                    "  metier plan models/DeepSeek-V3 --ranks 1024 --experts 64 --max-violation 0.5 --table",
        .run = cli_plan,
    },
    {
        .name = "report",
        .summary = "runs as one page: curves, loads, results, settings; also Markdown, pictures, CSV",
        .arguments = "RUN...",
        .details =
            "RUN is a folder as metier train (out), eval or analyze (--out) leaves it; given the same "
            "folder,\n"
            "they are one run. Several are drawn into the same figures, with their differences to the "
            "first.\n"
            "The page is one HTML file without any request to the network; each figure says what it means,\n"
            "which formula made it, and gives its numbers as CSV and JSON. What a run lacks is left out,\n"
            "with a line on how to get it.",
        .examples =
            "  metier report runs/first --out first.html\n"
            "  metier report runs/first runs/wide runs/metier --out compared.html --title 'Three runs'\n"
            "  metier report runs/first --markdown first.md --png pictures --data numbers\n"
            "  metier report eval-moe runs/base --out base.html",
        .run = cli_report,
    },
    {
        .name = "review",
        .summary = "a page on which a person judges the answers of a run, and agreement of all judges",
        .arguments = "RUN_DIR --out PAGE.html | --merge FILE | --agreement",
        .details =
            "RUN_DIR is what metier eval wrote. The page is one HTML file that needs no network: open it,\n"
            "mark answers as right, wrong or unsure, save. --merge takes what was saved over into\n"
            "RUN_DIR/review_TASK.jsonl, as metier eval --merge-review does. Agreement is Cohen's kappa of\n"
            "each two of rule, language model (metier judge) and person, Fleiss' kappa of all three.",
        .examples =
            "  metier review runs/eval --out review.html\n"
            "  metier review runs/eval --tasks gsm8k,math500 --sample 100 --seed 1 --out review.html\n"
            "  metier review runs/eval --merge review.json\n"
            "  metier review runs/eval --agreement",
        .run = cli_review,
    },
    {
        .name = "sandbox",
        .summary = "run a Python program nobody trusts, contained and limited; --check: does it hold here?",
        .arguments = "PROGRAM.py | --check",
        .details =
            "The program runs under bubblewrap: no network, a read-only system, a private /tmp, no home, no\n"
            "other process in sight, few system calls. It has passed when it reached its last line and left\n"
            "with status 0; then the exit status is 0, else 1. With --tests another interpreter, which the\n"
            "program cannot reach, calls its functions and compares what they give. --check runs a suite of\n"
            "hostile programs (fork and memory bombs, endless output, network, files, ptrace, signals, ...)\n"
            "and of answers that cheat, and lists how each was stopped; exit status 1 when one was not.\n"
            "docs/sandbox.md says what this protects from.",
        .examples = "  metier sandbox --check\n"
                    "  metier sandbox solution.py --seconds 3 --memory 512\n"
                    "  metier sandbox solution.py --tests tests.py",
        .run = cli_sandbox,
    },
    {
        .name = "synth",
        .summary = "built-in problems with exact answers, to train and measure a small model with",
        .arguments = "",
        .details =
            "Writes JSONL with prompt, completion, domain, task and id: short problems in five domains, all\n"
            "different. A hash of the prompt decides between train, valid and test, so that these share\n"
            "nothing, whatever the seed and the difficulty. The same options give the same bytes. Domains\n"
            "and their sub-tasks take turns. docs/synth.md shows every sub-task.",
        .examples = "  metier synth --list\n"
                    "  metier synth --show 2 --domain math --difficulty 5\n"
                    "  metier synth --domain all --count 2000 --out '{domain}.jsonl'    # math.jsonl, "
                    "code.jsonl, ...\n"
                    "  metier synth --domain all --count 100000 --out train.jsonl\n"
                    "  metier synth --domain all --split test --count 500 --out 'data/synth/{domain}.jsonl'",
        .run = cli_synth,
    },
    {
        .name = "tokenize",
        .summary = "text to token ids, and back",
        .arguments = "DIR",
        .details =
            "DIR holds tokenizer.json or tiktoken.model, or is one of these files. The whole of FILE is\n"
            "one text; its ids go to standard output, one per line. Special tokens spelled out in the\n"
            "text become their ids; those the tokenizer puts around a text are added only with\n"
            "--special. Bytes that are not UTF-8 count as U+FFFD.",
        .examples = "  metier tokenize models/moe --file letter.txt --special\n"
                    "  metier tokenize models/moe --file - --count < letter.txt\n"
                    "  metier tokenize models/moe --file ids.txt --decode",
        .run = cli_tokenize,
    },
    {
        .name = "train",
        .summary = "fine-tune a model with LoRA or fully, or train one from scratch, by any method",
        .arguments = "CONFIG.yaml [key=value ...]",
        .details =
            "CONFIG.yaml names the model, the data and the folder of the run (out); every other key has a\n"
            "default, and key=value overrides the file. --keys lists them; docs/training.md explains them.\n"
            "The folder gets config.yaml, metrics.jsonl, tensorboard/, checkpoints/, and at the end\n"
            "adapter/ or model/ (with held-out data also the best one). Started again, a run goes on where\n"
            "its last checkpoint is; one that has finished says so. It goes on with the files it began "
            "with:\n"
            "data, tokenizer, configs or weights that hold something else are named and refused. Exit "
            "status\n"
            "130 or 143 after SIGINT or SIGTERM, which end the run after the step at hand.",
        .examples = "  printf 'model: models/moe\\nout: runs/first\\ndata.path: math.jsonl\\n' > run.yaml\n"
                    "  metier train run.yaml --dry-run\n"
                    "  metier train run.yaml\n"
                    "  metier train run.yaml out=runs/wide lora.rank=64 optimizer.lr=5e-5\n"
                    "  metier train run.yaml out=runs/metier method=metier objective.beta=1e-3 --threads 8\n"
                    "  metier report runs/first runs/wide runs/metier --out runs.html",
        .ranks = CLI_RANKS_SHARE,
        .run = cli_train,
    },
    {0},
};
