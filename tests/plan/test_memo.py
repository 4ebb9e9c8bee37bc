"""What plans remember: asked for again it is not made again, and the longest unasked goes first."""

from planner.plan import memo


def test_the_longest_unasked_is_forgotten_first(monkeypatch):
    """Room for two: a, b, a again, then c takes the place of b."""
    monkeypatch.setattr(memo, "_kept", {})
    monkeypatch.setattr(memo, "_KEPT_MOST", 2)
    made = []

    def ask(key):
        return memo.remembered(key, lambda: made.append(key) or key.upper())

    assert [ask(key) for key in "abacab"] == list("ABACAB")
    assert made == ["a", "b", "c", "b"]
