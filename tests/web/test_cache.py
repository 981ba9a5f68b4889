"""What is kept of sealed evaluations."""

from web.cache import OfSealed


def test_a_sealed_evaluation_is_computed_once_and_another_each_time() -> None:
    kept: OfSealed[int] = OfSealed()
    computed = iter(range(10))
    assert [kept.get("seal", lambda: next(computed)) for _ in range(3)] == [0, 0, 0]
    assert [kept.get(None, lambda: next(computed)) for _ in range(2)] == [1, 2]
    assert kept.get("another", lambda: next(computed)) == 3


def test_what_was_not_asked_for_longest_is_dropped() -> None:
    kept: OfSealed[str] = OfSealed(capacity=2)
    for seal in ("a", "b", "a", "c"):
        kept.get(seal, lambda seal=seal: seal)  # type: ignore[misc]
    assert [kept.get(seal, lambda: "computed again") for seal in ("a", "c", "b")] == ["a", "c", "computed again"]
