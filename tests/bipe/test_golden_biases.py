"""Biases of the literature against their reference implementations, elementwise.

Our models look back only: where a reference is for both directions, keys up to the query count.
Reads the data of tests/golden or of BIPE_GOLDEN (tests/golden/README.md).
"""

import pytest
import torch
from torch import Tensor

from bipe.attention.eager import eager_attention, scores_of
from bipe.bias import Bias
from bipe.encodings.cable import CABLE
from bipe.encodings.cope import CoPE
from bipe.encodings.deberta import DeBERTa, log_bucket
from bipe.encodings.fire import FIRE
from bipe.encodings.fox import FoX
from bipe.encodings.kerple import Kerple
from bipe.encodings.sandwich import Sandwich
from bipe.encodings.shaw import Shaw
from bipe.encodings.t5 import T5, bucket
from bipe.encodings.transformer_xl import TransformerXL
from bipe.encodings.tupe import TUPE
from tests.bipe.test_golden import TF, TORCH


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.double(), theirs.double(), atol=1e-5, rtol=1e-6)


def ids(time: int, batch: int = 1) -> Tensor:
    return torch.arange(time).expand(batch, -1)


def past(n_query: int, n_key: int) -> Tensor:
    return torch.ones(n_query, n_key, dtype=torch.bool).tril(n_key - n_query)


@torch.no_grad()
def fill(encoding, **values: Tensor):
    """Set parameters of an encoding, all of its layers, in float64."""
    for name, value in values.items():
        encoding.double().get_parameter(name).copy_(value)
    return encoding


def given(case: str) -> dict[str, Tensor]:
    return {n.partition("/param/")[2]: TORCH[n] for n in TORCH.of(f"{case}/param/")}


def drawn(encoding, time: int, *, start: int = 0) -> Tensor:
    """The bias of an encoding for a row."""
    at = ids(time) + start
    return encoding.bias(at, at).dense(torch.float64)[0]


def added(bias: Bias, q: Tensor, k: Tensor) -> Tensor:
    """What a bias adds to the scores of the last queries of some keys."""
    seen = past(q.shape[2], k.shape[2])[None]
    if bias.layered:
        bias = bias.in_layer(0)
    return bias.added(q, k, q @ k.mT, seen)


def close_in_the_past(ours: Tensor, theirs: Tensor) -> None:
    """Of scores of the last queries of some keys, by the last two axes."""
    seen = past(*theirs.shape[-2:])
    close(ours[..., seen], theirs[..., seen])


def heads(x: Tensor, n_head: int) -> Tensor:
    return x.unflatten(-1, (n_head, -1)).transpose(1, 2)


@pytest.mark.parametrize("case", TORCH.cases("kerple"))
def test_kerple(case):
    start = {name.split("_")[-1] + ("w" if "wei" in name else ""): TORCH[name].flatten()
             for name in TORCH.names if name.startswith(f"{case}/before/")}  # fmt: skip
    n_head = len(start["a"] if "a" in start else start["p"])
    power, weighted = "power" in case, "pw" in start
    given = {name: value for name, value in (("p", 1.0), ("a", 1.0)) if name not in start}
    kerple = Kerple(n_head=n_head, kernel="power" if power else "log", weighted=weighted, **given)
    names = {"p": "p", "a": "a", "pw": "weight_p", "aw": "weight_a"}
    fill(kerple, **{names[name]: value for name, value in start.items()})
    for kind in ("scores", "decode"):
        scores, theirs = TORCH[f"{case}/{kind}_in"], TORCH[f"{case}/{kind}_out"]
        n_query, n_key = scores.shape[2:]
        at = ids(n_key, len(scores))
        q = torch.zeros(len(scores), n_head, n_query, 4, dtype=torch.double)
        k = torch.zeros(len(scores), n_head, n_key, 4, dtype=torch.double)
        bias = kerple.bias(at[:, -n_query:], at)
        plain = scores * 2  # divided by sqrt(4) in attention
        found = bias.in_layer(0) if bias.layered else bias
        seen = past(n_query, n_key)[None].expand(len(q), -1, -1)
        close_in_the_past(scores + found.added(q, k, plain, seen), theirs)


@pytest.mark.parametrize("name", TORCH.of("sandwich/"))
def test_sandwich(name):
    theirs = TORCH[name][0]
    width = int(name.rpartition("_d")[2])
    ours = Sandwich(n_head=len(theirs), width=width)
    close_in_the_past(drawn(ours, theirs.shape[-1]), theirs)


@pytest.mark.parametrize("name", TORCH.of("t5/bucket_bi0"))
def test_buckets_of_t5(name):
    buckets, longest = (int(x.lstrip("maxn")) for x in name.split("_")[2:])
    relative = TORCH["t5/relative_position"]
    ours = bucket(-relative, buckets=buckets, longest=longest)
    assert torch.equal(ours, TORCH[name])


@pytest.mark.parametrize("name", TORCH.of("t5/bias_decoder"))
def test_t5(name):
    theirs, table = TORCH[name], TORCH["t5/bias_table"]
    longest = int(name.rpartition("max")[2])
    t5 = fill(T5(n_head=table.shape[1], buckets=len(table), longest=longest), table=table)
    close_in_the_past(drawn(t5, theirs.shape[-1]), theirs)


@pytest.mark.parametrize("case", TORCH.cases("fire"))
def test_fire(case):
    theirs, held = TORCH[f"{case}/bias"][0], given(case)
    hidden, n_head = len(held["mlp.0.bias"]), len(held["mlp.2.bias"])
    fire = FIRE(n_head=n_head, hidden=hidden, length=float(held["init_L"]))
    names = {"mlp.0": "inner", "mlp.2": "outer", "L_multiplier": "multiplier", "c": "c"}
    layers = {name: name.rpartition(".")[0] or name for name in held if name != "init_L"}
    fill(fire, **{n.replace(part, names[part]): held[n] for n, part in layers.items()})
    close_in_the_past(drawn(fire, theirs.shape[-1]), theirs)


@pytest.mark.parametrize("case", TORCH.cases("tupe"))
def test_tupe(case):
    """The first token of the reference is [CLS], tied to no position; others are from 1."""
    theirs, held = TORCH[f"{case}/bias"], given(case)
    n_head, time, _ = theirs.shape
    length, width = held["pos.weight"].shape
    tupe = TUPE(width=width, n_head=n_head, length=length)
    names = {"table": "pos", "norm": "pos_ln", "query": "pos_q_linear", "key": "pos_k_linear"}
    fill(tupe, **{f"{ours}.{part}": held[f"{name}.{part}"] for ours, name in names.items()
                  for part in ("weight", "bias") if f"{name}.{part}" in held})  # fmt: skip
    ours = drawn(tupe, time, start=1)
    if "relative_attention_bias.weight" in held:
        table = held["relative_attention_bias.weight"]
        ours = ours + table[TORCH[f"{case}/rp_bucket"]].movedim(-1, 0)
    words = past(time, time)
    words[:, 0] = False
    close(ours[:, words], theirs[:, words])


@pytest.mark.parametrize("case", TORCH.cases("txl"))
def test_transformer_xl(case):
    """Keys are of the memory and the row; the reference may normalise what enters first."""
    weight, theirs = TORCH[f"{case}/param/qkv_net.weight"], TORCH[f"{case}/scores_qkbn"]
    x = TORCH[f"{case}/w"]
    n_query, n_key, _, n_head = theirs.shape
    if f"{case}/mems" in TORCH.names:
        x = torch.cat((TORCH[f"{case}/mems"], x))
    if "prelnorm" in case:
        norm = (TORCH[f"{case}/param/layer_norm.{part}"] for part in ("weight", "bias"))
        x = torch.nn.functional.layer_norm(x, x.shape[-1:], *norm)
    q, k, _ = (heads((x @ part.T).transpose(0, 1), n_head) for part in weight.chunk(3))
    width, project = x.shape[-1], TORCH[f"{case}/param/r_net.weight"]
    xl = TransformerXL(width=width, n_head=n_head, head_width=q.shape[-1])
    u, v = TORCH[f"{case}/r_w_bias"], TORCH[f"{case}/r_r_bias"]
    fill(xl, project=project.unflatten(0, (n_head, -1))[None], u=u[None], v=v[None])
    q, at = q[:, :, -n_query:], ids(n_key, x.shape[1])
    bias = xl.bias(at[:, -n_query:], at)
    ours = q @ k.mT * q.shape[-1] ** -0.5 + added(bias, q, k)
    close_in_the_past(ours, theirs.permute(2, 3, 0, 1))


@pytest.mark.parametrize("case", TF.cases("shaw"))
def test_shaw(case):
    q, k, v = (TF[f"{case}/{name}"] for name in "qkv")
    # The rows of the reference go from -longest to longest; ours from distance 0 on.
    longest = len(TF[f"{case}/emb_keys"]) // 2
    names = ("keys", "values")
    tables = {name: TF[f"{case}/emb_{name}"][: longest + 1].flip(0)[None] for name in names}
    shaw = fill(Shaw(head_width=q.shape[-1], longest=longest), **tables)
    at, seen = ids(q.shape[2], len(q)), past(q.shape[2], k.shape[2])
    bias = shaw.bias(at, at).in_layer(0)
    # The reference does not scale inside.
    ours = q @ k.mT + bias.added(q, k, q @ k.mT, seen[None]) * q.shape[-1] ** 0.5
    close_in_the_past(ours, TF[f"{case}/logits"])
    if case.endswith("causal"):
        allowed = seen[None].expand(len(q), -1, -1)
        ours = eager_attention(q * q.shape[-1] ** 0.5, k, v, bias=bias, allowed=allowed)
        close(ours, TF[f"{case}/out"])


@pytest.mark.parametrize("name", TORCH.of("deberta/v2_log"))
def test_log_buckets_of_deberta(name):
    buckets, longest = (int(x.lstrip("bmax")) for x in name.split("_")[-2:])
    ours = log_bucket(TORCH["deberta/relative_position"], buckets=buckets, longest=longest)
    assert torch.equal(ours, TORCH[name])


@pytest.mark.parametrize("case", TORCH.cases("deberta"))
def test_deberta(case):
    """The reference looks both ways: our scores of all pairs, softmax over all of them."""
    held, hidden, table = given(case), TORCH[f"{case}/hidden"], TORCH[f"{case}/rel_embeddings"]
    theirs, width = TORCH[f"{case}/attn_probs"], hidden.shape[-1]
    n_head, none = theirs.shape[1], torch.zeros(width)

    def project(name, zero=none):
        return hidden @ held[f"{name}.weight"].T + held.get(f"{name}.bias", zero)

    if "in_proj.weight" in held:  # version 1: queries, keys and values of a head are neighbours
        q, k, _ = heads(project("in_proj", 0.0), n_head).chunk(3, -1)
        q = q + held["q_bias"].view(1, n_head, 1, -1)
        names = {"c2p": "pos_proj", "p2c": "pos_q_proj"}
    else:
        q, k = (heads(project(name), n_head) for name in ("query_proj", "key_proj"))
        pos = "" if "pos_key_proj.weight" not in held else "pos_"
        names = {"c2p": f"{pos}key_proj", "p2c": f"{pos}query_proj"}
    own = {"c2p": ("pos_proj", "pos_key_proj"), "p2c": ("pos_q_proj", "pos_query_proj")}
    terms = tuple(t for t in own if t in case or any(f"{name}.weight" in held for name in own[t]))
    deberta = DeBERTa(width=width, n_head=n_head, span=len(table) // 2, terms=terms)
    values = {"table": table}
    for term in terms:
        weight, offset = held[f"{names[term]}.weight"], held.get(f"{names[term]}.bias", none)
        values[f"{term}_weight"] = weight.unflatten(0, (n_head, -1))[None]
        values[f"{term}_bias"] = offset.unflatten(0, (n_head, -1))[None]
    fill(deberta, **values)
    # In its own log buckets.
    index = (TORCH[f"{case}/relative_pos"] + deberta.span).clamp(0, 2 * deberta.span - 1)
    deberta._index = lambda q_ids, k_ids: index.expand(len(q_ids), -1, -1)
    at = ids(hidden.shape[1], len(hidden))
    everything = torch.ones(1, hidden.shape[1], hidden.shape[1], dtype=torch.bool)
    close(scores_of(q, k, deberta.bias(at, at).in_layer(0), everything).softmax(-1), theirs)


@pytest.mark.parametrize("case", TORCH.cases("cope"))
def test_cope(case):
    q, k, table = (TORCH[f"{case}/{name}"] for name in ("q", "k", "pos_emb"))
    cope = fill(CoPE(head_width=q.shape[-1], positions=len(table)), table=table[None])
    at = ids(q.shape[2], len(q))
    close_in_the_past(added(cope.bias(at, at), q, k), TORCH[f"{case}/bias"])


@pytest.mark.parametrize(("name", "kind"), [("cable", CABLE), ("dd_alibi", FoX)])
def test_gates(name, kind):
    if f"{name}/x" not in TORCH.names:
        pytest.skip("not in this folder")
    x, at = TORCH[f"{name}/x"], ids(TORCH[f"{name}/x"].shape[1], len(TORCH[f"{name}/x"]))
    prefix = f"{name}/param/" + ("h_attn" if name == "cable" else "to_forget_gates.0")
    weight, offset = TORCH[f"{prefix}.weight"], TORCH[f"{prefix}.bias"]
    encoding = kind(width=x.shape[-1], n_head=len(weight))
    fill(encoding, weight=weight[None], offset=offset[None])
    bias = encoding.bias(at, at)
    ours = bias.over(bias.gates(0, x).transpose(1, 2)).dense(torch.float64)
    if name == "cable":
        total = TORCH["cable/cum_b"]
        theirs = total[..., :, None] - total[..., None, :]
    else:
        theirs = TORCH["dd_alibi/bias"]
    close_in_the_past(ours, theirs)
