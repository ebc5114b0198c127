//! The frames that follow a request on its stream: any number of `data`, then one `done` or one
//! `error`.

use value::Value;

use crate::kinds::kinds;

kinds! {
    /// A frame that follows a request.
    enum Answer;

    /// A part of the answer; with `push`, a part of the file that is sent.
    "data" Data [MinionToMaster MasterToMinion ClientToMaster ClientToMinion JobToMinion] {
        /// Bytes of a file, entries of a list, an event, the return of one minion.
        data: Value,
    }

    /// The end of the answer, or all of it.
    "done" Done [MinionToMaster MasterToMinion ClientToMaster ClientToMinion JobToMinion] {
        /// The rest of the answer.
        data: Value,
    }

    /// The failure of a request. There is no answer, which is never the same as an empty one.
    "error" Failed [MinionToMaster MasterToMinion ClientToMaster ClientToMinion JobToMinion] {
        /// One word for programs: `missing`, `refused`, `invalid`, `busy`, `failed`.
        reason: String,
        /// A sentence that describes the failure.
        text: String,
    }
}
