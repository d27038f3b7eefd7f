"""Whether a sentence ends at a place: ordered tables of rules; the first that fits decides."""
