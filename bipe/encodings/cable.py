"""A penalty that depends on the tokens between query and key (CABLE; 2503.08067, eq. 5 and 6).

    score(i, j) = q_i . k_j / sqrt(head_width) - sum_{m=j+1}^{i} softplus(w x_m + b)

-softplus(z) = log sigmoid(-z): gates of FoX with the sign of w x + b turned. The official code does
not divide q . k by sqrt(head_width) and takes rows of one length only; here both are as everywhere.
"""

from bipe.encodings.fox import FoX


class CABLE(FoX):
    """Steps computed from hidden states, per head and token. start: b; negative starts small."""

    sign = -1.0
