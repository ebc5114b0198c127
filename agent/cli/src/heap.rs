//! [`Heap`]: where the memory of both binaries comes from.
//!
//! A run makes and drops hundreds of small values for each state, nearly all of them in one thread. A general allocator spends a quarter
//! of such a run, musl's nearly half. Here a block comes from a list of its size that belongs to the first thread, without
//! a lock and without a header; all other threads share a second set of lists behind a lock. A block goes to the lists of the
//! thread that frees it. The chunks that blocks are cut from come from the system, and what is larger from its own allocator.
#![allow(
    unsafe_code,
    reason = "an allocator hands out raw memory; this file is all of it"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::io::Write as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::failure::Exit;

/// Sizes are rounded up to this; every block is aligned to it.
const STEP: usize = 16;

/// Up to this many bytes there is a size for each step, from there on sixteen for each doubling.
const FINE: usize = 2048;

/// How many sizes a doubling has, as a power of two: a connection of the master is a few large blocks, and half of each would be air.
const PARTS: u32 = 4;

/// The largest block that comes from a list, in bytes: what grows passes through these sizes, and leaves them to what grows next.
const LARGEST: usize = 128 << 10;

/// How many sizes there are: 0, 16, 32, … FINE, and those of its doublings up to LARGEST. Nobody asks for none.
const SIZES: usize = FINE / STEP + 1 + ((LARGEST / FINE).ilog2() << PARTS) as usize;

/// How much is asked of the system at once, in bytes.
const CHUNK: usize = 256 << 10;

/// Up to this many bytes nobody goes on without them. Who asks for more, as for a whole file, may be able to tell what for.
const NEEDED: usize = 16 << 20;

/// The program's allocator.
#[derive(Debug)]
pub struct Heap;

/// A free block holds the address of the next one of its size.
struct Free {
    next: *mut Self,
}

/// The free blocks by size, and what is left of the last chunk.
struct Lists {
    free: [*mut Free; SIZES],
    chunk: *mut u8,
    left: usize,
}

/// The lists of the thread that claimed them.
struct Claimed(UnsafeCell<Lists>);

// SAFETY: only the one thread whose `MINE` is true reaches into it, and `claim` lets one thread have that.
unsafe impl Sync for Claimed {}

// SAFETY: the addresses in it are of blocks that nobody else knows.
unsafe impl Send for Lists {}

static CLAIMED: Claimed = Claimed(UnsafeCell::new(Lists::EMPTY));
static SHARED: Mutex<Lists> = Mutex::new(Lists::EMPTY);
static IS_CLAIMED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread has the claimed lists. Without a destructor it can be asked at any time of a thread's life.
    static MINE: Cell<bool> = const { Cell::new(false) };
}

/// Gives this thread lists of its own, if no other has them: for the thread that does a run. A daemon does not ask for them: what its first
/// thread makes and others drop would go to the shared lists one way, and its memory would grow for as long as it lives.
pub fn claim() {
    if !IS_CLAIMED.swap(true, Ordering::Relaxed) {
        MINE.set(true);
    }
}

impl Lists {
    const EMPTY: Self = Self {
        free: [null_mut(); SIZES],
        chunk: null_mut(),
        left: 0,
    };

    /// A block of a size, by the number of that; null when the system has no memory.
    ///
    /// # Safety
    /// `size` is at least 1 and below `SIZES`.
    #[inline(always)]
    unsafe fn take(&mut self, size: usize) -> *mut u8 {
        // SAFETY: the caller's word.
        let head = unsafe { self.free.get_unchecked_mut(size) };
        let block = *head;
        if block.is_null() {
            return self.cut(bytes(size));
        }
        // SAFETY: what is in a list was given back whole, and holds what `put` wrote.
        *head = unsafe { (*block).next };
        block.cast()
    }

    /// Takes back a block of a size.
    ///
    /// # Safety
    /// It came from `take` with the same `size`, of these lists or of others, and nobody uses it any more.
    #[inline(always)]
    unsafe fn put(&mut self, block: *mut u8, size: usize) {
        let block = block.cast::<Free>();
        // SAFETY: the caller's word; a block is as large and as aligned as an address at least.
        unsafe {
            let head = self.free.get_unchecked_mut(size);
            (*block).next = *head;
            *head = block;
        }
    }

    /// Cuts a block off the chunk, or off a new one.
    #[inline(never)]
    fn cut(&mut self, bytes: usize) -> *mut u8 {
        if self.left < bytes && !self.renew() {
            return null_mut();
        }
        let block = self.chunk;
        // SAFETY: `bytes` are left.
        self.chunk = unsafe { block.add(bytes) };
        self.left -= bytes;
        block
    }

    /// Takes a new chunk of the system; false when it has none. What is left of the old one becomes blocks, the largest first.
    fn renew(&mut self) -> bool {
        while self.left > 0 {
            let size = (1..SIZES).rev().find(|size| bytes(*size) <= self.left);
            let size = size.unwrap_or(1);
            // SAFETY: nobody has it; what is left is a multiple of a step, so that the block is no larger.
            unsafe {
                self.put(self.chunk, size);
                self.chunk = self.chunk.add(bytes(size));
            }
            self.left -= bytes(size);
        }
        self.chunk = mapped(CHUNK);
        self.left = if self.chunk.is_null() { 0 } else { CHUNK };
        self.left > 0
    }
}

/// New memory of the system; null when it has none. It is there at once: a chunk is used up soon, and to be given each page when it
/// is first touched costs twice as much.
fn mapped(bytes: usize) -> *mut u8 {
    let (access, flags) = (
        ProtFlags::READ | ProtFlags::WRITE,
        MapFlags::PRIVATE | MapFlags::POPULATE,
    );
    // SAFETY: memory of no file, at no address that is asked for, takes the place of nothing.
    let new = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) };
    new.map_or(null_mut(), <*mut c_void>::cast)
}

/// The number of the size that a layout takes; none where the system's own allocator is asked.
#[inline(always)]
fn size_for(layout: Layout) -> Option<usize> {
    let fits = layout.size() <= LARGEST && layout.align() <= STEP;
    if !fits {
        return None;
    }
    Some(match layout.size() {
        ..=FINE => layout.size().div_ceil(STEP),
        large => {
            let doubling = (large - 1).ilog2();
            let parts = ((large - 1) >> (doubling - PARTS)) - (1 << PARTS);
            FINE / STEP + 1 + (((doubling - FINE.ilog2()) as usize) << PARTS) + parts
        }
    })
}

/// How many bytes a block of a size has.
#[inline(always)]
fn bytes(size: usize) -> usize {
    match size.checked_sub(FINE / STEP + 1) {
        Some(large) => {
            let parts = (large & ((1 << PARTS) - 1)) + (1 << PARTS) + 1;
            (parts << (large >> PARTS)) * (FINE >> PARTS)
        }
        None => size * STEP,
    }
}

/// A block that is there; ends the program where it is not and nobody could go on.
#[inline(always)]
fn had(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() && size <= NEEDED {
        end();
    }
    block
}

/// Ends the program for want of memory, with what it needs none for.
#[cold]
#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "who asks for memory cannot be handed an error"
)]
fn end() -> ! {
    let _ = std::io::stderr().write_all(
        b"error: out of memory: the system gives this program no more\n\
        Hint: raise its limit (ulimit -v, MemoryMax= of the unit, the control group's), or apply fewer states at once; what a run has done is in its record\n",
    );
    std::process::exit(Exit::Software as i32)
}

// SAFETY: a block has the size and the alignment asked for, and is in one list or in one hand, never in two.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no layout that is asked for has size 0, and `size_for` gives none that is too large; the lists are this thread's or locked.
        let block = unsafe {
            match size_for(layout) {
                None => System.alloc(layout),
                Some(size) if MINE.get() => (*CLAIMED.0.get()).take(size),
                Some(size) => SHARED
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(size),
            }
        };
        had(block, layout.size())
    }

    /// New pages of the system are zero: to write that would only take them, as 3 MB of a socket's buffers that are never filled.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's word; a block of `alloc` has the size that is written.
        unsafe {
            if size_for(layout).is_none() {
                return had(System.alloc_zeroed(layout), layout.size());
            }
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller gives the layout that it asked with, so the block goes where it came from.
        unsafe {
            match size_for(layout) {
                None => System.dealloc(block, layout),
                Some(size) if MINE.get() => (*CLAIMED.0.get()).put(block, size),
                Some(size) => SHARED
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .put(block, size),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's word: `size` is not 0 and is no more than a layout may have.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (before, after) = (size_for(layout), size_for(wanted));
        if before == after && before.is_some() {
            return block;
        }
        // SAFETY: both layouts are right, and what is copied is in both blocks.
        unsafe {
            if before.is_none() && after.is_none() {
                return had(System.realloc(block, layout, size), size);
            }
            let new = self.alloc(wanted);
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn a_block_has_what_was_asked_for_and_a_quarter_more_at_most() {
        for asked in 1..=LARGEST {
            let size = size_for(layout(asked, 8)).unwrap();
            let has = bytes(size);
            assert!(
                size < SIZES && has >= asked && has.is_multiple_of(STEP),
                "{asked}"
            );
            assert!(has <= asked + (asked / 4).max(STEP), "{asked}: {has}");
        }
        assert_eq!(size_for(layout(LARGEST, 8)).unwrap(), SIZES - 1);
    }

    #[test]
    fn blocks_are_aligned_do_not_overlap_and_keep_what_is_in_them_when_they_grow_and_shrink() {
        let mut blocks = Vec::new();
        for size in (1..5000).step_by(7).chain((5000..300_000).step_by(9973)) {
            for align in [1, 8, 16, 64, 4096] {
                let layout = layout(size, align);
                // SAFETY: the size is not 0; the block is written within its size.
                let block = unsafe { Heap.alloc(layout) };
                assert_eq!(block as usize % align, 0);
                // SAFETY: as above.
                unsafe { block.write_bytes(size as u8, size) };
                blocks.push((block, layout));
            }
        }
        for (number, (block, before)) in blocks.into_iter().enumerate() {
            let size = (before.size() * (1 + number % 5) / 2).max(1);
            // SAFETY: the block came with this layout and is given back once, with its last one.
            unsafe {
                let new = Heap.realloc(block, before, size);
                let kept = std::slice::from_raw_parts(new, size.min(before.size()));
                assert!(kept.iter().all(|byte| *byte == before.size() as u8));
                assert_eq!(new as usize % before.align(), 0);
                Heap.dealloc(new, layout(size, before.align()));
            }
        }
    }

    #[test]
    fn what_one_thread_makes_another_may_drop() {
        claim();
        let (sender, receiver) = std::sync::mpsc::channel::<Vec<String>>();
        let dropping =
            std::thread::spawn(move || receiver.iter().map(|texts| texts.len()).sum::<usize>());
        let making: Vec<_> = (0..4)
            .map(|thread| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    for length in 0..500 {
                        let text = format!("{thread} {length}").repeat(length % 50);
                        sender.send(vec![text; length % 20]).unwrap();
                    }
                })
            })
            .collect();
        making.into_iter().for_each(|thread| thread.join().unwrap());
        drop(sender);
        let wanted: usize = (0..500).map(|length| length % 20).sum();
        assert_eq!(dropping.join().unwrap(), 4 * wanted);
    }
}
