//! Extensions of the extension adaptive filter: their lengths, entropy and code.
//!
//! Lee, McCauley, Singh, Stein, "Telescoping Filter", section 5 and appendix C.4.
//! The queries that share a key's quotient and remainder are Poisson, of mean
//! `load * absent * epsilon`, and each has the next bits in common with probability
//! 1/2; an extension is as long as it takes to differ from all:
//! `Pr[length <= l] = exp(-mean / 2^l)`.

/// Longer extensions are left out of sums; the library has none.
const LONGEST: usize = 32;

/// Probabilities of a key's extension having 0, 1, ... bits, when the queries that
/// share its quotient and remainder are Poisson of this mean.
#[must_use]
pub fn key_lengths(mean: f64) -> Vec<f64> {
    let mut before = 0.0;
    (0..=LONGEST)
        .map(|length| {
            let at_most = (-mean * (-(length as f64)).exp2()).exp();
            at_most - std::mem::replace(&mut before, at_most)
        })
        .collect()
}

/// Probabilities of the length of a slot's extension, after `absent` distinct
/// queries a key.
#[must_use]
pub fn slot_lengths(epsilon: f64, load: f64, absent: f64) -> Vec<f64> {
    let mut slot = key_lengths(load * absent * epsilon);
    slot.iter_mut().for_each(|probability| *probability *= load);
    slot[0] += 1.0 - load;
    slot
}

/// The mean length of a key's extension, in bits.
#[must_use]
pub fn mean_length(lengths: &[f64]) -> f64 {
    lengths.iter().enumerate().map(|(length, probability)| length as f64 * probability).sum()
}

/// The entropy of an extension, bits and length: those of one length are all
/// equally likely.
#[must_use]
pub fn entropy(lengths: &[f64]) -> f64 {
    super::telescoping::entropy(lengths) + mean_length(lengths)
}

/// Bits that the code of appendix C.4 spends on an extension, where one that is not
/// empty has probability `some`: `2^-l` for its length among those, and `2^-l` for
/// its bits. (Corrected: the paper's exponent is `-2^l`.)
#[must_use]
pub fn code_bits(some: f64, length: usize) -> f64 {
    match length {
        0 => -(1.0 - some).log2(),
        _ => 2.0 * length as f64 - some.log2(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::telescoping::overflow;
    use super::*;

    /// `taf_exaf_entropy.csv`: A/S, bits of a key's extension, entropy of a slot,
    /// probability that a block needs more than 56 bits, to five digits. The code is
    /// the authors', 1/16 + 1/32.
    #[test]
    fn extensions_are_the_tables() {
        for (absent, length, entropy_of_slot, overflowing) in [
            (1.0, 0.0074127, 0.047833, 2.5302e-6),
            (10.0, 0.07331, 0.35628, 0.013891),
            (20.0, 0.14484, 0.63342, 0.16486),
            (50.0, 0.34931, 1.2998, 0.89453),
        ] {
            let key = key_lengths(0.95 * absent / 256.0);
            assert!((mean_length(&key) / length - 1.0).abs() < 1e-4, "{absent}");
            let slot = slot_lengths(1.0 / 256.0, 0.95, absent);
            assert!((entropy(&slot) / entropy_of_slot - 1.0).abs() < 1e-4, "{absent}");
            // The grid of the table's code lengths, as for selectors.
            let [less, more] = [56.25, 55.75]
                .map(|budget| overflow(&slot, |l| code_bits(1.0 / 16.0 + 1.0 / 32.0, l), budget));
            assert!(less <= overflowing && overflowing <= more, "{absent}: {less} to {more}");
        }
    }

    #[test]
    fn the_code_is_a_code() {
        let sum: f64 = (0..200).map(|l| (l as f64 - code_bits(0.1, l)).exp2()).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }
}
