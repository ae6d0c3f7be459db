//! A pause is not a stall: the campaign's cells at a few phases. `make pauses` runs all of them at fifty.

use fip_sim::pauses::{LENGTHS, Stall, cells};

/// A leader's and a follower's.
const PHASES: u64 = 2;

#[test]
fn no_pause_is_taken_for_a_stall_and_every_stall_beside_one_is_found() {
    let cells = cells(&[LENGTHS[0], LENGTHS[2]]);
    assert_eq!(cells.len(), 4 * 2 * 2 * 3);
    for cell in cells {
        let tally = cell.run(PHASES).unwrap();
        assert!(tally.is_good() && tally.runs == 2, "{cell:?}: {tally:?}");
        assert_eq!(tally.worst > 0, cell.stall != Stall::None, "{cell:?}: {tally:?}");
    }
}
