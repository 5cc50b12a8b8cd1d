#include "ebb/exec/spill/spill_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/exec/spill/spill_content.hpp"

namespace ebb::exec {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kGranule = SpillContent::kGranule;
constexpr std::uint64_t kMostPiece = 4 << 20;      // bytes of one request, direct
constexpr std::uint64_t kBufferedPiece = 1 << 20;  // and through the page cache: dirty for a while
constexpr std::uint64_t kLeastPiece = 1 << 20;     // below this two requests gain nothing

struct Transfer : SpillRange {
  std::uint64_t number = 0;            // 0: never used
  std::uint64_t piece = 0, given = 0;  // bytes of a piece; up to which byte pieces are given out
  int moving = 0;                      // pieces being moved
  bool failed = false;                 // and nobody was told
  std::string error;

  bool all_given() const { return given == bytes; }
  bool done() const { return all_given() && moving == 0; }
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

struct SpillFile::State {
  State(const SpillOptions& options, std::span<const SpillSlot> slots);
  ~State();

  Ticket submit(const SpillRange& range);
  void wait(std::uint64_t number);
  void drain(std::unique_lock<std::mutex>& hold);
  Transfer* next();
  void work(int thread);
  void stop_threads();
  Transfer& at(std::uint64_t number) { return ring[number % static_cast<std::uint64_t>(tickets)]; }

  SpillContent content;
  int tickets, thread_count;
  memory::Buffer ring_memory;
  Transfer* ring = nullptr;

  mutable std::mutex lock;  // over all below, the ring, and the content but for pieces being moved
  std::condition_variable work_there, something_done;
  std::uint64_t submitted = 0;   // number of the newest transfer
  std::uint64_t unfinished = 1;  // number of the oldest that may not be done
  int moving = 0;                // pieces being moved
  bool stop = false;
  Clock::time_point busy_since;
  SpillStats stats;
  std::array<std::thread, SpillContent::kMostThreads> threads;
};

SpillFile::State::State(const SpillOptions& options, std::span<const SpillSlot> slots)
    : content(options, slots), tickets(options.tickets), thread_count(options.threads) {
  if (tickets < 1) throw Error(fmt::format("spill: {} tickets; expected 1 or more", tickets));
  const auto count = static_cast<std::size_t>(tickets);
  ring_memory = memory::Buffer(count * sizeof(Transfer), "spill tickets", Category::workspace);
  ring = reinterpret_cast<Transfer*>(ring_memory.data());
  for (std::size_t i = 0; i < count; ++i) new (ring + i) Transfer();
  try {
    for (int t = 0; t < thread_count; ++t)
      threads[static_cast<std::size_t>(t)] = std::thread([this, t] { work(t); });
  } catch (const std::exception& e) {
    stop_threads();
    throw Error(fmt::format("spill: cannot start a thread: {}; raise ulimit -u", e.what()));
  }
}

SpillFile::State::~State() {
  stop_threads();
  for (int i = 0; i < tickets; ++i) ring[i].~Transfer();
}

void SpillFile::State::stop_threads() {
  {
    std::lock_guard hold(lock);
    stop = true;
  }
  work_there.notify_all();
  for (std::thread& t : threads)
    if (t.joinable()) t.join();
}

SpillFile::Ticket SpillFile::State::submit(const SpillRange& range) {
  content.check_range(range.slot, range.offset, range.bytes);
  std::unique_lock hold(lock);
  Transfer& t = at(submitted + 1);
  if (!t.done()) {
    const auto start = Clock::now();
    something_done.wait(hold, [&] { return t.done(); });
    stats.waited_seconds += since(start);
  }
  if (t.failed) {  // nobody has asked for it yet, and its place is needed
    t.failed = false;
    throw FileError(t.error);
  }
  static_cast<SpillRange&>(t) = range;
  t.number = ++submitted;
  t.given = 0;
  // A place is used again only when it is done, and so is all that is older.
  const auto size = static_cast<std::uint64_t>(tickets);
  if (submitted >= size) unfinished = std::max(unfinished, submitted - size + 1);
  const std::uint64_t most = content.file().direct() ? kMostPiece : kBufferedPiece;
  const std::uint64_t even = range.bytes / static_cast<std::uint64_t>(thread_count);
  t.piece = std::clamp((even + kGranule - 1) / kGranule * kGranule, kLeastPiece, most);
  if (range.bytes == 0 && range.replaces) {  // no thread will see it
    drain(hold);
    content.begin_write(t);
  }
  const Ticket ticket{t.number};
  hold.unlock();
  if (range.bytes) work_there.notify_all();
  return ticket;
}

void SpillFile::State::wait(std::uint64_t number) {
  std::unique_lock hold(lock);
  if (number > submitted) throw Error("spill: this ticket is of another spill file");
  Transfer& t = at(number);
  if (number == 0 || t.number != number) return;
  if (!t.done()) {
    const auto start = Clock::now();
    something_done.wait(hold, [&] { return t.done(); });
    stats.waited_seconds += since(start);
  }
  if (!t.failed) return;
  t.failed = false;
  throw FileError(t.error);
}

void SpillFile::State::drain(std::unique_lock<std::mutex>& hold) {
  const auto start = Clock::now();
  something_done.wait(hold, [&] {
    for (int i = 0; i < tickets; ++i)
      if (!ring[i].done()) return false;
    return true;
  });
  stats.waited_seconds += since(start);
}

// The transfer whose next piece may begin: the oldest that is not given out, if it shares nothing
// with older ones still moving. Called with the lock held.
Transfer* SpillFile::State::next() {
  while (unfinished <= submitted && at(unfinished).done()) ++unfinished;
  for (std::uint64_t n = unfinished; n <= submitted; ++n) {
    Transfer& t = at(n);
    if (t.all_given()) continue;
    for (std::uint64_t older = unfinished; older < n; ++older) {
      const Transfer& o = at(older);
      if (!o.done() && o.meets(t)) return nullptr;
    }
    return &t;
  }
  return nullptr;
}

void SpillFile::State::work(int thread) {
  std::unique_lock hold(lock);
  for (;;) {
    Transfer* t = nullptr;
    work_there.wait(hold, [&] { return stop || (t = next()) != nullptr; });
    if (stop) return;
    // Pieces end at granules, so that no two threads have the same one.
    if (t->given == 0 && t->writes) content.begin_write(*t);
    const std::uint64_t begin = t->offset + t->given;
    const std::uint64_t end =
        std::min(t->offset + t->bytes, (begin / kGranule) * kGranule + t->piece);
    t->given = end - t->offset;
    ++t->moving;
    if (moving++ == 0) busy_since = Clock::now();
    hold.unlock();

    std::string error;
    try {
      content.move(*t, begin, end, thread);
    } catch (const std::exception& e) {
      error = e.what();
    }

    hold.lock();
    --t->moving;
    if (--moving == 0) stats.busy_seconds += since(busy_since);
    if (error.empty()) {
      (t->writes ? stats.bytes_written : stats.bytes_read) += end - begin;
    } else {
      if (!t->failed) t->error = std::move(error);
      t->failed = true;
      t->given = t->bytes;  // the rest has no use
    }
    if (t->done()) {
      if (t->failed && t->writes) content.mark_failed(*t);
      something_done.notify_all();
      work_there.notify_all();  // what had to stand behind it
    }
  }
}

SpillFile::SpillFile(const SpillOptions& options, std::span<const SpillSlot> slots)
    : state_(std::make_unique<State>(options, slots)) {}
SpillFile::~SpillFile() = default;

std::uint64_t SpillFile::file_bytes(std::span<const SpillSlot> slots) {
  return SpillContent::file_bytes(slots);
}
std::uint64_t SpillFile::memory_bytes(const SpillOptions& options,
                                      std::span<const SpillSlot> slots) {
  return SpillContent::memory_bytes(options, slots) +
         static_cast<std::uint64_t>(options.tickets) * sizeof(Transfer);
}

SpillFile::Ticket SpillFile::write(int slot, std::span<const std::byte> from) {
  return state_->submit({slot, true, true, const_cast<std::byte*>(from.data()), 0, from.size()});
}
SpillFile::Ticket SpillFile::read(int slot, std::span<std::byte> to) {
  return state_->submit({slot, false, false, to.data(), 0, to.size()});
}
void SpillFile::wait(Ticket ticket) { state_->wait(ticket.number); }

SpillFile::Ticket SpillFile::write(int slot, std::uint64_t offset,
                                   std::span<const std::byte> from) {
  auto* const memory = const_cast<std::byte*>(from.data());
  return state_->submit({slot, true, false, memory, offset, from.size()});
}
SpillFile::Ticket SpillFile::read(int slot, std::uint64_t offset, std::span<std::byte> to) {
  return state_->submit({slot, false, false, to.data(), offset, to.size()});
}
void SpillFile::write_now(int slot, std::uint64_t offset, std::span<const std::byte> from) {
  wait(write(slot, offset, from));
}
void SpillFile::read_now(int slot, std::uint64_t offset, std::span<std::byte> to) {
  wait(read(slot, offset, to));
}

void SpillFile::commit() {
  std::unique_lock hold(state_->lock);
  state_->drain(hold);
  for (int i = 0; i < state_->tickets; ++i) {
    Transfer& t = state_->ring[i];
    if (!t.failed || !t.writes) continue;
    t.failed = false;
    throw FileError(t.error);
  }
  state_->content.commit();
}

void SpillFile::rollback() {
  std::unique_lock hold(state_->lock);
  state_->drain(hold);
  for (int i = 0; i < state_->tickets; ++i) state_->ring[i].failed = false;
  state_->content.rollback();
}

SpillStats SpillFile::stats() const {
  std::lock_guard hold(state_->lock);
  return state_->stats;
}
const std::string& SpillFile::directory() const { return state_->content.directory(); }
bool SpillFile::direct() const { return state_->content.file().direct(); }
int SpillFile::descriptor() const { return state_->content.file().descriptor(); }
std::uint64_t SpillFile::offset_of(int slot) const {
  std::lock_guard hold(state_->lock);
  return state_->content.offset_of(slot);
}

}  // namespace ebb::exec
