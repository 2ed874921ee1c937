use super::*;
use crate::line::lanes::tests::compare;
use crate::line::tests::shapes;

fn has_level_3() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

/// Also where they are too slow to be used.
#[test]
fn every_twin_agrees_with_counting_bit_by_bit() {
    if has_level_3() {
        compare(Compared(()));
        compare(Avx2(()));
    }
    if has_level_3() && is_x86_feature_detected!("avx512bw") {
        compare(Avx512(()));
    }
}

/// Without it the tests of twins might compare the portable one with itself.
#[test]
fn every_twin_runs_where_the_processor_has_it() {
    let fast_pdep = has_level_3() && !pdep_is_slow();
    let level_4 = fast_pdep && is_x86_feature_detected!("avx512bw");
    let twins = [true, has_level_3(), fast_pdep, level_4];
    let there = twins.into_iter().filter(|&is_there| is_there).count();
    for shape in shapes() {
        assert_eq!(Twin::all(&shape).len(), there, "portable, AVX2, BMI2, AVX-512: {twins:?}");
    }
}
