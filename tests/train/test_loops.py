"""docs/loops.md: a script of one's own trains with our Lightning modules."""

import re
from pathlib import Path

import tokenizers

PAGE = (Path(__file__).parents[2] / "docs" / "loops.md").read_text(encoding="utf-8")


def test_our_modules_train_from_a_script(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    names = {"data": str(data)}
    exec(compile(code, "loops.md", "exec", dont_inherit=True), names)
    assert names["trainer"].global_step == 6
    assert names["rows"].consumed_rows == 6 * 4


def test_a_plain_loop_trains_and_no_document_is_predicted_from_another():
    page = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=270, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
    )
    texts = [f"It rained {n} times. Nobody noticed! Why?\n" * 3 for n in range(40)]
    tokenizer.train_from_iterator(texts, trainer)
    sizes = {"width": 32, "n_layer": 2, "n_head": 4, "mlp_width": 64}
    encoding = {"_target_": "bipe.encodings.ALiBi", "n_head": 4}
    names = {"texts": texts, "tokenizer": tokenizer, "sizes": sizes, "encoding": encoding}
    exec(compile(page[1], "loops.md", "exec", dont_inherit=True), names)
    assert names["loss"].item() < 5.2  # from ln 270 = 5.6
    unscored = int((names["targets"] == -100).sum())
    inside = names["marks"][:, 1:] & 1
    assert 20 < unscored == int(inside.sum())
    assert names["rows"].shape[1] == 65 and (names["rows"][1:, 0] == names["rows"][:-1, -1]).all()
