//! EXTEND (section 4.1): fingerprints of the length that tells them apart, or the yard.

use super::{BroomFilter, GROUP, Hash};
use crate::broom::form::Form;
use crate::broom::sizing::shape;
use crate::broom::strings::Text;

/// The shortest adaptivity bits of `owner` that are no prefix of `other`'s. `None`: all 64 are
/// the same.
fn told_apart(owner: &Hash, other: &Hash) -> Option<Text> {
    let common = (owner.bits ^ other.bits).leading_zeros();
    (common < 64).then(|| Text::prefix(owner.bits, common as u8 + 1))
}

impl<F: Form> BroomFilter<F> {
    /// Lengthens the fingerprint in a slot until it is no prefix of `other`. A slot without an
    /// owner goes.
    ///
    /// A fingerprint without room for its new length makes way, and its key goes to the yard.
    /// The length stays as a ghost: when the key comes back to its group, it must not collide
    /// with `other` again (Property 10).
    pub(super) fn extend(&mut self, quotient: usize, slot: u32, owner: Option<Hash>, other: &Hash) {
        let Some(owner) = owner else {
            let _ = self.level.remove(quotient, slot);
            return;
        };
        self.drop_dead_ghosts(quotient / GROUP);
        let longer = told_apart(&owner, other);
        if longer.is_some_and(|text| self.level.set_string(quotient, slot, text).is_ok()) {
            return;
        }
        let _ = self.level.remove(quotient, slot);
        self.put_into_yard(&owner);
        let string = longer.unwrap_or(Text::prefix(owner.bits, Text::LONGEST));
        if let Some(ghost) = self.new_ghost(&owner, string) {
            self.leave(ghost);
        }
    }

    /// By how many ranges an EXTEND moves the frontier: as a removal does, by a whole group if it
    /// leaves a ghost outside.
    pub(super) fn ranges_for_extension(
        &mut self,
        quotient: usize,
        slot: u32,
        owner: Option<Hash>,
        other: &Hash,
    ) -> usize {
        let usual = self.params.sweep as usize;
        self.drop_dead_ghosts(quotient / GROUP);
        let has_room = owner.is_none_or(|owner| {
            let longer = told_apart(&owner, other);
            longer.is_some_and(|text| self.level.has_room_for_string(quotient, slot, text))
        });
        if has_room || !self.params.ghosts { usual } else { usual.max(GROUP) }
    }

    /// Gives a digest that no fingerprint matches the shortest fingerprint that
    /// is no prefix of another and as long as the ghosts that it matches.
    pub(super) fn place(&mut self, hash: &Hash) {
        let Hash { quotient, remainder, bits, .. } = *hash;
        let ghost = self.ghost_length(hash);
        let mut length = ghost;
        let mut equal = self.level.equal(quotient, remainder);
        while equal != 0 {
            let string = self.level.string(quotient, equal.trailing_zeros());
            length = length.max(string.common(bits) + 1);
            equal &= equal - 1;
        }
        let signature_taken =
            self.has_signatures() && self.level.same_head(quotient, remainder) != 0;
        // A ghost of all bits is of a key that no string told from a query.
        let placed = length <= Text::LONGEST
            && ghost < Text::LONGEST
            && !signature_taken
            && self.level.insert(quotient, remainder, Text::prefix(bits, length)).is_ok();
        if !placed {
            self.put_into_yard(hash);
        }
    }

    fn has_signatures(&self) -> bool {
        shape(self.params.slots.f, self.level.quotients()).tail != 0
    }
}

#[cfg(test)]
mod tests;
