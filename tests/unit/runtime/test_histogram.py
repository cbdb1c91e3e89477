from barnabas.runtime.histogram import Histogram


def test_values_are_counted_up_to_each_bound() -> None:
    found = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        found.observe(value)
    assert list(found.cumulative()) == [("1", 2), ("2", 3), ("+Inf", 4)]
    assert (found.count, found.total) == (4, 12.0)


def test_a_quantile_lies_within_the_bucket_of_its_value() -> None:
    found = Histogram((1.0, 2.0, 4.0))
    for value in (0.5, 0.5, 1.5, 3.0):
        found.observe(value)
    assert 0 < found.quantile(0.5) <= 1.0
    assert 2.0 < found.quantile(0.99) <= 4.0


def test_a_quantile_of_nothing_is_zero_and_one_above_all_bounds_is_the_last() -> None:
    found = Histogram((1.0,))
    assert found.quantile(0.99) == 0.0
    found.observe(100.0)
    assert found.quantile(0.99) == 1.0
