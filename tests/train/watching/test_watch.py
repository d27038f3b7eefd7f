"""What a training prints around its steps, and what it warns of before them."""

import logging
import re

import pytest

from tests.train.studies import back_to, pretrain
from train.fit.watching.announce import warnings_of


def test_a_run_says_what_it_is_and_how_it_ended(smoke, capsys, tmp_path, data):
    capsys.readouterr()
    run = pretrain(*smoke)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"^device +cpu \(\d+ threads\), precision 32-true$", err, re.M)
    assert re.search(r"^model +BiPE-RoPE, [\d,]+ parameters, vocabulary \d+$", err, re.M)
    assert "6 steps of 256 tokens (4 rows of 64): 1,536 tokens" in err
    assert re.search(rf"^data +{re.escape(str(data))}$", err, re.M)
    assert f"folder     {run}" in err and f"model      {run / 'model'}" in err
    assert re.search(r"^bipe_rope  step 3/6  validation loss \d\.\d+$", err, re.M)
    assert re.search(
        r"^trained +6 steps, 1,536 tokens in 0:00:\d\d \(.* tokens/s\), loss \d", err, re.M
    )
    assert re.search(r"^validated +loss \d\.\d{4} at step 6$", err, re.M)
    assert f"bipe evaluate out={tmp_path} data={data}" in err
    assert f"bipe generate {run} --prompt" in err
    assert "resumed" not in err


def test_a_resumed_run_says_where_it_goes_on(smoke, capsys):
    run = pretrain(*smoke)
    back_to(run, step=4)
    capsys.readouterr()
    pretrain(*smoke, "if_exists=resume")
    assert "resumed    at step 4 on 1 device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("schedule", "steps", "validate_every", "words"),
    [
        ({"warmup": 60}, 60, None, ["schedule.warmup=60 is not below steps=60"]),
        ({"warmup": 6}, 60, 200, ["validate_every=200 is above steps=60"]),
        ({"warmup": 6}, 60, 60, []),
        ({}, 60, None, []),
    ],
)
def test_what_is_rarely_meant_is_told(schedule, steps, validate_every, words):
    found = warnings_of(steps=steps, validate_every=validate_every, schedule=schedule)
    assert len(found) == len(words)
    assert all(text.startswith(word) for text, word in zip(found, words, strict=True))


def test_the_warnings_come_before_the_first_step(smoke, caplog):
    with caplog.at_level(logging.WARNING):
        pretrain(*smoke, "steps=2", "validate_every=9")
    texts = [record.getMessage() for record in caplog.records]
    assert any("the learning rate only rises" in text for text in texts)
    assert any("validate_every=null validates at the end" in text for text in texts)
