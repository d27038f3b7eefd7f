"""Help says what conf/ holds, in a page, and Tab completes it."""

import shlex
import shutil
import subprocess

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from train.cli import main
from train.launch import help_pages
from train.launch.commands import COMMANDS, COMPOSED, find
from train.launch.help_pages import groups, help_page, keys, options
from train.launch.reader import read

LINES = 40


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_one_page_and_says_how_to_call_it(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"bipe {command}" in shown
    assert len(shown.splitlines()) <= LINES


@pytest.mark.parametrize("command", COMMANDS)
def test_every_name_of_an_option_means_one_option(command):
    options = COMMANDS[command].options
    names = [*options, *(option.short for option in options.values() if option.short)]
    assert len(names) == len(set(names))


def test_p_of_generate_is_the_prompt():
    words = read(find(["generate"])[0], ["RUN", "-p", "a = b"])
    assert "generate.prompt=a = b" in words.overrides and not words.has("package")


def test_help_shows_every_key_of_the_configuration():
    with initialize_config_module("conf", version_base="1.3"):
        config = OmegaConf.to_container(compose("config"))
    plain = {key for key, value in config.items() if not isinstance(value, dict)}
    nested = {
        f"{section}.{key}"
        for section in ("evaluate", "generate", "scrolls", "extend", "report", "statistics")
        for key in config[section]
    }
    everything = {".".join(key.split(".")[:2]) for key in keys()}
    assert (plain | nested) - {"stretch", "task", "positions"} <= everything
    assert set(config) - plain <= set(groups()) | {key.partition(".")[0] for key in keys()}


@pytest.mark.parametrize("command", COMPOSED)
def test_a_page_names_what_there_is_and_its_examples_are_words_that_are_read(command):
    for example in COMMANDS[command].examples:
        words = shlex.split(example.replace("-m train.cli", "bipe"), comments=True)
        own, rest = find(words[words.index("bipe") + 1 :])
        assert own.word == COMMANDS[command].word
        assert read(own, rest).typed == tuple(rest)
    page = COMMANDS[command]
    text = help_page(page, [])
    for section in page.sections:
        alone = help_page(page, ["all"])
        assert section.startswith("report") or f"# {section}" in alone
    assert set(page.groups) <= set(groups())
    assert set(page.leave_out) <= set(keys())
    known = {key.partition(".")[0] for key in keys()} | set(groups()) | {"validate", "path"}
    for example in page.examples:
        assert example in text
        for word in example.partition("#")[0].split():
            name = word.partition("=")[0].partition(".")[0].partition("@")[0]
            assert "=" not in word or name in known, word


def test_help_of_a_group_and_of_a_key(capsys):
    assert main(["pretrain", "--help", "rows"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {option} " in shown for option in options("rows"))
    assert "rows.packing: concat" in shown
    assert main(["scrolls", "--help", "rows"]) == main(["--help", "scrolls"]) == 0
    # Option and keys are the command's own defaults.
    shown = capsys.readouterr().out
    assert "rows.packing: single" in shown and "rows.global_batch: 64" in shown
    assert main(["extend", "--help", "schedule"]) == main(["extend", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "schedule.warmup: 20" in shown and "schedule=OPTION shows" in shown
    assert "row_length: 2048   " in shown and "steps: 1000" not in shown
    assert main(["--help", "task=qmsum"]) == 0
    assert "output_tokens: 1000" in capsys.readouterr().out
    assert main(["evaluate", "--help", "evaluate.probing"]) == 0
    assert "evaluate.probing.trials: 10" in capsys.readouterr().out
    for key, told in {"schedule.warmup": "steps", "rows.curriculum": "{length: 128"}.items():
        assert main(["pretrain", "--help", key]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"{key}: ") and told in shown and shown.count("\n") == 1
    for words in (["generate", "runs/mine", "--help"], ["generate", "--help"]):  # that is a run
        assert main(words) == 0
    first, second = capsys.readouterr().out.split("bipe generate: ")[1:]
    assert first == second


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("bipe pret", ["pretrain"]),
        ("bipe evaluate statistics --c", ["--cfg", "--config-file", "--config-dir"]),
        ("bipe tok", ["tokenizer"]),
        ("bipe prepare --l", ["--limit"]),
        ("bipe pretrain ste", ["steps="]),
        ("bipe pretrain seed=1 encoding=bipe_", ["encoding=bipe_alibi", "encoding=bipe_rope"]),
        ("bipe pretrain --help evaluate.probing.t", ["evaluate.probing.trials"]),
        ("bipe segment --st", ["--stats"]),
        ("bipe convert RUN to=", ["to=hf", "to=bipe"]),
        ("bipe segment fil", []),
    ],
)
def test_what_tab_offers(line, found, capsys):
    assert main(["completion", "zsh", "--line", line]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == (found or [""])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("breaks", [" =:", " "])
def test_bash_completes_by_the_script(breaks, monkeypatch, tmp_path):
    """With and without = in COMP_WORDBREAKS, where Bash replaces what follows it."""
    offered = tmp_path / "bipe"
    offered.write_text("#!/bin/sh\necho encoding=bipe_rope\n")
    offered.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    line = "bipe pretrain encoding=bipe_r"
    script = f"""{help_pages.SCRIPTS["bash"]}
compopt() {{ :; }}
COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDBREAKS='{breaks}'
_bipe; echo "${{COMPREPLY[@]}}" """
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ("bipe_rope" if "=" in breaks else "encoding=bipe_rope")
