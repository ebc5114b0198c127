//! The frames that follow a request on its stream: any number of `data`, then one `done` or `error`.

use value::Value;

use crate::kinds::kinds;

kinds! {
    /// A frame that follows a request.
    enum Answer;

    /// A part of what was asked for; with `push`, a part of what is sent.
    "data" Data [MinionToMaster MasterToMinion ClientToMaster ClientToMinion JobToMinion] {
        /// Bytes of a file, entries of a list, an event, the return of one minion.
        data: Value,
    }

    /// The end of the answer, or all of it.
    "done" Done [MinionToMaster MasterToMinion ClientToMaster ClientToMinion JobToMinion] {
        /// What is left to say.
        data: Value,
    }

    /// The request failed: there is no answer, which is never the same as an empty one.
    "error" Failed [MinionToMaster MasterToMinion ClientToMaster ClientToMinion JobToMinion] {
        /// One word for programs: `missing`, `refused`, `invalid`, `busy`, `failed`.
        reason: String,
        /// A sentence that says what was wrong.
        text: String,
    }
}
