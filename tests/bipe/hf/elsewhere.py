"""What a model answers, here and in a process without bipe: test_portable.py runs this file there.

python elsewhere.py THREADS FOLDER ...    loads each by its modeling_bipe.py; writes FOLDER.pt
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

MISSING = ("bipe", "segmenters", "train", "jaxtyping")
TEXT = "He left. She stayed!"


def in_threads(calls, *, rounds, threads=8):
    """Return how many calls give other tensors in several threads than one after another."""
    expected = [call() for call in calls]

    def differs(at):
        with torch.set_grad_enabled(grad):
            made = calls[at % len(calls)]()
        return not all(map(torch.equal, made, expected[at % len(calls)]))

    grad = torch.is_grad_enabled()
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(differs, range(rounds * len(calls))))


@torch.no_grad()
def answers(model):
    """Return logits and generations of a model."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(1, 64, (3, 18), generator=generator)
    marks = (torch.arange(18) % 5 == 0).byte().expand(3, 18) * 2
    mask = torch.ones_like(ids)
    mask[0, :7] = mask[1, :2] = 0
    restarts = torch.cat([torch.arange(11), torch.arange(7)])[None]
    vectors = model.get_input_embeddings()(ids)
    passes = {
        "by table": {"input_ids": ids},
        "given": {"input_ids": ids, "segment_marks": marks},
        "padded": {"input_ids": ids * mask, "attention_mask": mask},
        "packed": {"input_ids": ids[:1], "position_ids": restarts, "segment_marks": marks[:1]},
        "vectors": {"inputs_embeds": vectors, "segment_marks": marks},
    }
    made = {name: model(**given).logits for name, given in passes.items()}
    calls = [lambda given=given: [model(**given).logits] for given in passes.values()]
    made["wrong in threads"] = torch.tensor(in_threads(calls, rounds=160))
    made["padded"] = made["padded"][:, 7:]
    generations = {
        "greedy, padded": {"inputs": ids * mask, "attention_mask": mask},
        "greedy, given": {"inputs": ids, "segment_marks": marks},
        "beams": {"inputs": ids[:1], "num_beams": 3},
    }
    for name, given in generations.items():
        options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, **given}
        made[name] = model.generate(**options)
    return made


def spoken(folder):
    """Return the ids of a text by the tokenizer of a folder, and what its model goes on with."""
    ids = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)(TEXT)["input_ids"]
    write = pipeline("text-generation", model=folder, trust_remote_code=True)
    (written,) = write(TEXT, max_new_tokens=5, do_sample=False)
    return {"ids": torch.tensor(ids), "written": written["generated_text"]}


def main(folders):
    """Answer as each model does; print the reasons of what is refused."""
    for folder in folders:
        model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
        made = answers(model)
        if Path(folder, "tokenizer.json").is_file():
            made |= spoken(folder)
        torch.save(made, f"{folder}.pt")
        model.save_pretrained(f"{folder}-again")
    for wrong in (
        lambda: AutoModelForCausalLM.from_pretrained(folders[0], trust_remote_code=False),
        lambda: model.generate(torch.ones(1, 3).long(), segmentation="exact"),
    ):
        try:
            wrong()
        except ValueError as reason:
            print(reason)


if __name__ == "__main__":
    sys.modules.update(dict.fromkeys(MISSING))  # so they are neither imported nor found
    torch.set_num_threads(int(sys.argv[1]))
    main(sys.argv[2:])
