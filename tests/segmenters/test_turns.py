"""Conversations: where turns start, and that machines follow them."""

import pytest

from segmenters import ChainOfThought, Turns, route
from tests.segmenters.record_samples import plain, typed, with_marks

# Typed as `record_samples` says; a segment that starts a turn is one of two levels.
TEMPLATES = [
    "<|im_start|>user\n@@Is it? @@Tell me.<|im_end|>\n@#<|im_start|>assistant\n"
    "@@<think>\n@@Hmm. @@So.\n@@</think>\n@@It is\n\\[ 4. \\]\n<|im_end|>\n",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n@@Hi. @@You?<|eot_id|>"
    "@#<|start_header_id|>assistant<|end_header_id|>\n\n@@Fine. @@Yes.<|eot_id|>",
    "<s>[INST] @@Hi. @@There [/INST] @#Hello. @@You </s>@#<s>[INST] @@So? [/INST] @#Yes </s>",
    "<bos><start_of_turn>user\n@@It. @@So<end_of_turn>\n@#<start_of_turn>model\n@@Yes",
    "<|user|>\n@@Hi.<|end|>\n@#<|assistant|>\n@@Hello. @@Yes<|end|>",
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>Be good@#<\uff5cUser\uff5c>@@Hi. @@Ho"
    "@#<\uff5cAssistant\uff5c>@@Yes. @@No<\uff5cend\u2581of\u2581sentence\uff5c>",
    "User: Hi. @@There.\n@#Assistant: Well:\n@@```py\n@@'A. B'\n@@```\n"
    "@#Human: ok\n\n@#### Response: so. @@Yes",
]
LOGS = [
    "Marissa: Thank you. @@Let us go.\n@#Professor Lee: Yes. @@No, so it is.",
    "[10:15] <joe> hi. @@You\n@#[10:16] <amy> Fine.\n@#10:17 * joe waves. @@Bye",
    "12/31/20, 10:15 PM - Bob: Hi. @@You\n@#12/31/20, 10:16 PM - Amy: Yes",
    "[03.01.2024, 09:10:22] +49 170 12: Hi. @@You\n@#[03.01.2024, 09:11:22] \U0001f431 Cat: Yes",
    "\u0411\u043e\u0431: \u0414\u0430. @@\u041d\u0443 \u0434\u0430.\n"
    "@#\u0410\u043d\u043d\u0430: \u041d\u0435\u0442, \u043d\u0435\u0442.",
]


@pytest.mark.parametrize("marked", TEMPLATES)
@pytest.mark.parametrize("of", [None, ChainOfThought()], ids=repr)
def test_turns_of_templates_and_labels(marked, of):
    text = plain(typed(marked))
    assert with_marks(text, Turns(of=of).levels(text)) == typed(marked)
    assert route(text=text, kind="prose") == "turns"


@pytest.mark.parametrize("marked", LOGS)
def test_turns_of_transcripts_and_logs(marked):
    text = plain(typed(marked))
    assert with_marks(text, Turns(names=True).levels(text)) == typed(marked)
    assert route(text=(text + "\n") * 3) == "transcript"
