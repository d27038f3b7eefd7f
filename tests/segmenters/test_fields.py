"""Fields of rows are kept where they are, nested ones as well."""

from segmenters.fields import kept_fields


def test_named_fields_are_kept_nested_and_whole():
    row = {"repo": {"id": 7, "name": "a"}, "meta": {"path": "x.py", "stars": 3}, "text": "t" * 5000}
    assert kept_fields(row, ["repo.id"], whole=True) == {"repo": {"id": 7}}
    assert kept_fields(row, ["repo.id"], whole=False) == {}
    both = kept_fields(row, ["repo.id", "repo.name", "path", "meta.stars"], whole=True)
    assert both == {"repo": {"id": 7, "name": "a"}, "meta": {"path": "x.py", "stars": 3}}
    assert kept_fields({"repo.id": 7}, ["repo.id"], whole=True) == {"repo.id": 7}
    assert kept_fields({"meta": '{"repo": {"id": 7}}'}, ["meta.repo.id"], whole=True) == {
        "meta": {"repo": {"id": 7}}
    }
