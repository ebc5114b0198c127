use super::*;

/// Numbers of all sizes, always the same ones.
fn numbers() -> Vec<u64> {
    let mut state = 1_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> (state % 64)
    };
    (0..5000).map(next).collect()
}

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

#[test]
fn each_number_is_in_its_bucket_and_buckets_follow_each_other() {
    let (low, mut last) = scale::bounds(0);
    assert_eq!(low, 0);
    let highest = scale::bucket(u64::MAX);
    assert_eq!(highest, 251);
    for bucket in 1..=highest {
        let (low, high) = scale::bounds(bucket);
        assert_eq!(low, last + 1, "bucket {bucket}");
        assert_eq!(scale::bucket(low), bucket);
        assert_eq!(scale::bucket(high), bucket);
        // A quarter of the numbers up to the next power of two.
        assert!(high - low <= low / 4, "bucket {bucket}: {low} to {high}");
        last = high;
    }
    assert_eq!(last, u64::MAX);
    assert_eq!([7, 8, 9, 10, 1024].map(scale::bucket), [7, 8, 8, 9, 36]);
}

#[test]
fn percentiles_differ_from_the_exact_ones_by_less_than_their_bucket() {
    let mut values = numbers();
    let stats = histogram(&values).percentile_stats();
    values.sort_unstable();
    assert_eq!(stats.samples, 5000);
    let all = [
        (stats.p0_1, 1),
        (stats.p1, 10),
        (stats.p5, 50),
        (stats.p10, 100),
        (stats.p50, 500),
        (stats.p90, 900),
        (stats.p99, 990),
        (stats.p99_9, 999),
    ];
    for (estimate, part) in all {
        let exact = values[(values.len() * part).div_ceil(1000) - 1];
        assert_eq!(
            scale::bucket(estimate),
            scale::bucket(exact),
            "{part}: {estimate} instead of {exact}"
        );
    }
}

#[test]
fn small_numbers_are_exact() {
    let stats = histogram(&[1, 2, 3, 4, 5, 6, 7, 7, 7, 7]).percentile_stats();
    assert_eq!((stats.p0_1, stats.p10, stats.p50), (1, 1, 5));
    assert_eq!((stats.p90, stats.p99_9), (7, 7));
    let text = "samples=10 p50=5 p90=7 p99=7 p99.9=7";
    assert_eq!(stats.to_string(), text);
    let none = Histogram::<()>::new().percentile_stats();
    assert_eq!((none.samples, none.p50, none.p99_9), (0, 0, 0));
}

#[test]
fn a_number_is_counted_several_times_at_once() {
    let mut at_once = histogram(&[3]);
    at_once.record_n(900, 4);
    assert_eq!(at_once, histogram(&[900, 900, 3, 900, 900]));
    assert_eq!(at_once.total(), 5);
    let before = at_once.clone();
    at_once.record_n(u64::MAX, 0);
    assert_eq!(at_once, before);
    at_once.record_n(u64::MAX, u64::MAX);
    assert_eq!(at_once.total(), u64::MAX);
    assert_ne!(at_once, before);
}

#[test]
fn a_chart_has_a_bar_for_each_bucket_with_a_count() {
    let chart = AsciiChart::new();
    let chart = chart.add("sizes", histogram(&[5, 5, 100]));
    let text = chart.detailed().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0], "sizes: 3");
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    assert_eq!(words(lines[1])[..4], ["5", "to", "5", "2"]);
    assert_eq!(words(lines[2])[..4], ["96", "to", "111", "1"]);
    assert_eq!(words(lines[1])[4].len(), 2 * words(lines[2])[4].len());
}
