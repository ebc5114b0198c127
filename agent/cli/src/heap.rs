//! [`Heap`]: the memory allocator of both binaries.
//!
//! A run makes and drops hundreds of small values for each state, nearly all of them in one thread.
//! A general allocator takes a quarter of the time of such a run, and musl's nearly half. Here, a
//! block comes from a list of blocks of its size that belongs to the first thread, without a lock
//! and without a header. All other threads share a second set of lists behind a lock. A freed block
//! goes to the lists of the thread that frees it. The kernel provides the chunks that blocks are
//! cut from, and the system's allocator provides larger blocks.
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

/// The unit in bytes that sizes are rounded up to. Every block is aligned to it.
const STEP: usize = 16;

/// The largest size in bytes with one size for each step. Above it, each doubling has sixteen
/// sizes.
const FINE: usize = 2048;

/// The number of sizes in a doubling, as a power of two. The master needs a few large blocks for
/// each connection, and with fewer sizes up to half of each block would be unused.
const PARTS: u32 = 4;

/// The largest block that comes from a list, in bytes. A growing value passes through these sizes
/// and leaves its old blocks to the next growing value.
const LARGEST: usize = 128 << 10;

/// The number of sizes: 0, 16, 32, … FINE, and those of its doublings up to LARGEST. No caller asks
/// for size 0.
const SIZES: usize = FINE / STEP + 1 + ((LARGEST / FINE).ilog2() << PARTS) as usize;

/// The number of bytes that are requested from the kernel at once.
const CHUNK: usize = 256 << 10;

/// The largest size in bytes for which a failed allocation ends the program. A caller that
/// allocates more, such as for a whole file, may be able to report what it needs the memory for.
const NEEDED: usize = 16 << 20;

/// The program's allocator.
#[derive(Debug)]
pub struct Heap;

/// A free block. It contains the address of the next free block of its size.
struct Free {
    next: *mut Self,
}

/// The free blocks by size, and the rest of the last chunk.
struct Lists {
    free: [*mut Free; SIZES],
    chunk: *mut u8,
    left: usize,
}

/// The lists of the thread that claimed them.
struct Claimed(UnsafeCell<Lists>);

// SAFETY: only the one thread whose `MINE` is true accesses it, and `claim` sets that for one
// thread only.
unsafe impl Sync for Claimed {}

// SAFETY: the addresses in it are those of blocks that no other code has.
unsafe impl Send for Lists {}

static CLAIMED: Claimed = Claimed(UnsafeCell::new(Lists::EMPTY));
static SHARED: Mutex<Lists> = Mutex::new(Lists::EMPTY);
static IS_CLAIMED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// True if this thread has the claimed lists. It has no destructor, so it can be read at any
    /// time of the thread's life.
    static MINE: Cell<bool> = const { Cell::new(false) };
}

/// Gives this thread separate lists, if no other thread has them. A thread that does a run calls
/// it. A daemon does not: blocks that its first thread allocates and other threads free would only
/// ever move to the shared lists, and its memory would grow for as long as it lives.
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

    /// Returns a block of the size with the given number, or null if the system has no memory.
    ///
    /// # Safety
    /// `size` is at least 1 and below `SIZES`.
    #[inline(always)]
    unsafe fn take(&mut self, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees the bounds.
        let head = unsafe { self.free.get_unchecked_mut(size) };
        let block = *head;
        if block.is_null() {
            return self.cut(bytes(size));
        }
        // SAFETY: a block in a list was freed as a whole and contains what `put` wrote.
        *head = unsafe { (*block).next };
        block.cast()
    }

    /// Returns a block to the list of its size.
    ///
    /// # Safety
    /// The block came from `take` with the same `size`, of these lists or of others, and is no
    /// longer in use.
    #[inline(always)]
    unsafe fn put(&mut self, block: *mut u8, size: usize) {
        let block = block.cast::<Free>();
        // SAFETY: the caller guarantees it. A block is at least as large and as aligned as an
        // address.
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
        // SAFETY: at least `bytes` are left.
        self.chunk = unsafe { block.add(bytes) };
        self.left -= bytes;
        block
    }

    /// Gets a new chunk from the system, and returns false if the system has none. The rest of the
    /// old chunk becomes free blocks, the largest first.
    fn renew(&mut self) -> bool {
        while self.left > 0 {
            let size = (1..SIZES).rev().find(|size| bytes(*size) <= self.left);
            let size = size.unwrap_or(1);
            // SAFETY: no other code has this memory. The rest is a multiple of a step, so the block
            // fits into it.
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

/// Returns new memory from the kernel, or null if there is none. The kernel populates all pages at
/// once: a chunk is used up soon, and populating each page at its first access costs twice as much.
fn mapped(bytes: usize) -> *mut u8 {
    let (access, flags) = (
        ProtFlags::READ | ProtFlags::WRITE,
        MapFlags::PRIVATE | MapFlags::POPULATE,
    );
    // SAFETY: an anonymous mapping at an address that the kernel chooses replaces no other mapping.
    let new = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) };
    new.map_or(null_mut(), <*mut c_void>::cast)
}

/// Returns the number of the size for a layout, or `None` if the system's allocator must provide
/// it.
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

/// Returns the number of bytes in a block of a size.
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

/// Returns the block. If the allocation failed and the size is one that no caller can do without,
/// it ends the program.
#[inline(always)]
fn had(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() && size <= NEEDED {
        end();
    }
    block
}

/// Ends the program because there is no memory. It does not allocate.
#[cold]
#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    clippy::let_underscore_must_use,
    reason = "an allocator cannot return an error to its caller"
)]
fn end() -> ! {
    let _ = std::io::stderr().write_all(
        b"error: out of memory: the system refused to allocate more\n\
        Hint: raise the limit (ulimit -v, MemoryMax= of the unit, the control group's limit), or apply fewer states at once; the record of the run lists the states that were applied\n",
    );
    std::process::exit(Exit::Software as i32)
}

// SAFETY: a block has the requested size and alignment, and is either in one list or in use by one
// owner.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no caller asks for a layout of size 0, and `size_for` returns no number that is
        // too large. The lists belong to this thread or are locked.
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

    /// Returns zeroed memory. New pages from the kernel are zero already. Writing zeros to them
    /// would only make them resident, such as 3 MB of socket buffers that are never filled.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees it. A block from `alloc` has the size that is written.
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
        // SAFETY: the caller passes the layout of the allocation, so the block returns to where it
        // came from.
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
        // SAFETY: the caller guarantees that `size` is not 0 and not larger than a layout allows.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (before, after) = (size_for(layout), size_for(wanted));
        if before == after && before.is_some() {
            return block;
        }
        // SAFETY: both layouts are valid, and both blocks contain the copied range.
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
                // SAFETY: the size is not 0, and the block is written within its size.
                let block = unsafe { Heap.alloc(layout) };
                assert_eq!(block as usize % align, 0);
                // SAFETY: the block has `size` bytes.
                unsafe { block.write_bytes(size as u8, size) };
                blocks.push((block, layout));
            }
        }
        for (number, (block, before)) in blocks.into_iter().enumerate() {
            let size = (before.size() * (1 + number % 5) / 2).max(1);
            // SAFETY: the block was allocated with this layout and is freed once, with its last
            // layout.
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
