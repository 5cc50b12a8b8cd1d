#include "ebb/base/memory.hpp"

#include <fmt/core.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/process.hpp"

namespace ebb {
namespace {

// Stands before every buffer. Live blocks form a list, which is how the Ledger knows what is alive.
struct alignas(memory::kAlignment) Block {
  Block* previous;
  Block* next;
  std::size_t bytes;  // as asked for
  std::size_t charge;  // of the process: what it may have in memory
  const char* site;
  Scope::Id scope;
  std::uint16_t size_class;
  Category category;
  std::uint8_t promise;  // it is drawn from; 0: the program's own
};
static_assert(sizeof(Block) == 64);

// From here on blocks are mappings of their own: what is given back leaves the process.
constexpr std::size_t kMapped = std::size_t{128} << 10;
constexpr std::size_t kHuge = std::size_t{2} << 20;  // and from here on begin at a huge page
constexpr std::uint64_t kSlack = std::uint64_t{16} << 20;
constexpr int kClasses = 16 + 8 * 38;
constexpr std::uint16_t kPages = 0xffff;  // the class of blocks that are whole pages
constexpr std::size_t kPage = 4096;       // one more, before them, holds the Block

// Sizes of whole blocks: multiples of 64 up to 1024, then eight to each doubling.
int class_of(std::size_t size) {
  if (size <= 1024) return static_cast<int>((size + 63) / 64) - 1;
  const int log = std::bit_width(size - 1) - 1;  // 2^log < size <= 2^(log+1)
  const int eighth = static_cast<int>((size - 1) >> (log - 3)) & 7;
  return 16 + (log - 10) * 8 + eighth;
}

std::size_t class_size(int c) {
  if (c < 16) return static_cast<std::size_t>(c + 1) * 64;
  const int log = 10 + (c - 16) / 8, eighth = (c - 16) % 8;
  return (std::size_t{1} << log) + (static_cast<std::size_t>(eighth + 1) << (log - 3));
}

thread_local Scope::Id this_scope = 0;
thread_local Category this_category = Category::activations;
thread_local std::uint8_t this_promise = 0;
thread_local bool this_unguarded = false, this_borrows = false;

struct Promised {
  const char* who = nullptr;  // null: free
  std::uint64_t bytes = 0, drawn = 0;
  std::uint64_t taken() const { return std::max(bytes, drawn); }
};

struct ScopeEntry {
  std::string path, opened;
  Usage usage;
};

struct State {
  std::mutex lock;
  Block live{};  // sentinel of the list of live blocks
  std::array<Block*, kClasses> kept{};
  std::array<std::uint64_t, kClasses> used_at{};  // tick of the last use of a class
  std::uint64_t tick = 0;
  std::uint64_t kept_bytes = 0, held_bytes = 0, limit = 0, system_calls = 0;
  std::uint64_t process_limit = 0;
  void (*give_back)() = nullptr;
  std::array<Promised, 64> promises{};  // the first: what the program holds of its own
  std::uint64_t room_from = 0, rooms = 0;  // what it held when it asked for room, and how much
  Usage total;
  std::array<Usage, kCategories> categories{};
  std::array<std::uint64_t, kCategories> at_peak{};
  std::vector<ScopeEntry> scopes{ScopeEntry{}};
  std::map<std::pair<Scope::Id, std::string>, Scope::Id, std::less<>> children;

  std::uint64_t takes = 0, fail_at = 0;
  bool fail_forever = false, failed = false;

  State() {
    live.previous = live.next = &live;
    promises[0].who = "the program's own tensors";
  }

  std::uint64_t taken() const {
    std::uint64_t sum = 0;
    for (const Promised& p : promises) sum += p.taken();
    return sum;
  }
};

State& state() {
  static State* s = new State;  // outlives every tensor, statics included
  return *s;
}

void* map(std::size_t size) {
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Whole huge pages are used as such: a kernel that walks through gigabytes meets fewer faults and
// misses in the TLB. What is left over at the end stays in small pages, so that nothing is resident
// that was not asked for.
void* map_huge(std::size_t size, std::size_t used) {
  auto* p = static_cast<std::byte*>(map(size + kHuge));
  if (!p) return nullptr;
  const std::size_t before = (kHuge - reinterpret_cast<std::uintptr_t>(p) % kHuge) % kHuge;
  if (before) munmap(p, before);
  munmap(p + before + size, kHuge - before);
  madvise(p + before, used / kHuge * kHuge, MADV_HUGEPAGE);
  return p + before;
}

std::size_t pages_size(std::size_t bytes) { return kPage + (bytes + kPage - 1) / kPage * kPage; }

// Page-aligned bytes after a page for the Block; whole huge pages among them are used as such.
void* map_pages(std::size_t bytes) {
  const std::size_t size = pages_size(bytes);
  if (size < kHuge) return map(size);
  auto* p = static_cast<std::byte*>(map(size + kHuge));
  if (!p) return nullptr;
  const std::size_t before =
      (kHuge - (reinterpret_cast<std::uintptr_t>(p) + kPage) % kHuge) % kHuge;
  if (before) munmap(p, before);
  if (before < kHuge) munmap(p + before + size, kHuge - before);
  madvise(p + before + kPage, (size - kPage) / kHuge * kHuge, MADV_HUGEPAGE);
  return p + before;
}

void* system_take(std::size_t size, std::size_t used) {
  if (size < kMapped) return std::aligned_alloc(memory::kAlignment, size);
  return size < kHuge ? map(size) : map_huge(size, used);
}

void system_give(void* p, std::size_t size) {
  if (size < kMapped) {
    std::free(p);
  } else {
    munmap(p, size);
  }
}

// Gives kept blocks back, the longest unused classes first, until at most `keep` bytes are kept.
void trim_locked(State& s, std::uint64_t keep) {
  while (s.kept_bytes > keep) {
    int oldest = -1;
    for (int c = 0; c < kClasses; ++c)
      if (s.kept[c] && (oldest < 0 || s.used_at[c] < s.used_at[oldest])) oldest = c;
    const std::size_t size = class_size(oldest);
    while (s.kept[oldest] && s.kept_bytes > keep) {
      Block* block = s.kept[oldest];
      s.kept[oldest] = block->next;
      s.kept_bytes -= block->charge;
      s.held_bytes -= block->charge;
      system_give(block, size);
    }
  }
}

void enter(State& s, Block* block) {
  block->previous = s.live.previous;
  block->next = &s.live;
  block->previous->next = block;
  s.live.previous = block;
  s.promises[block->promise].drawn += block->charge;
  auto& scope = s.scopes[block->scope].usage;
  scope.live += block->bytes;
  scope.peak = std::max(scope.peak, scope.live);
  auto& category = s.categories[static_cast<int>(block->category)];
  category.live += block->bytes;
  category.peak = std::max(category.peak, category.live);
  s.total.live += block->bytes;
  if (s.total.live > s.total.peak) {
    s.total.peak = s.total.live;
    for (int c = 0; c < kCategories; ++c) s.at_peak[c] = s.categories[c].live;
  }
}

// What the program held when it asked for room, and holds no longer, is set aside no longer.
void less_of_its_own(State& s, std::uint64_t charge) {
  if (s.rooms == 0 || s.promises[0].drawn >= s.room_from) return;
  s.room_from -= std::min(s.room_from - s.promises[0].drawn, charge);
  s.promises[0].bytes = s.room_from + s.rooms;
}

void leave(State& s, Block* block) {
  block->previous->next = block->next;
  block->next->previous = block->previous;
  s.promises[block->promise].drawn -= block->charge;
  if (block->promise == 0) less_of_its_own(s, block->charge);
  s.scopes[block->scope].usage.live -= block->bytes;
  s.categories[static_cast<int>(block->category)].live -= block->bytes;
  s.total.live -= block->bytes;
}

std::string readable(std::uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::vector<Holding> holdings_locked(State& s, std::size_t most) {
  std::map<std::tuple<Category, Scope::Id, std::string_view>,
           std::pair<std::uint64_t, std::uint64_t>>
      groups;
  for (Block* b = s.live.next; b != &s.live; b = b->next) {
    auto& [bytes, count] = groups[{b->category, b->scope, b->site}];
    bytes += b->bytes;
    count += 1;
  }
  std::vector<Holding> all;
  all.reserve(groups.size());
  for (const auto& [key, sums] : groups) {
    const auto& [category, scope, site] = key;
    const ScopeEntry& entry = s.scopes[scope];
    std::string where(site);
    if (!entry.opened.empty()) where += fmt::format(" (scope opened at {})", entry.opened);
    all.push_back({sums.first, sums.second, category, entry.path, std::move(where)});
  }
  std::sort(all.begin(), all.end(), [](const Holding& a, const Holding& b) {
    return std::tie(b.bytes, a.scope, a.site) < std::tie(a.bytes, b.scope, b.site);
  });
  if (all.size() > most) all.resize(most);
  return all;
}

[[noreturn]] void refuse(State& s, std::size_t bytes, const char* site, const char* by) {
  std::string holders, by_promise;
  for (const Holding& h : holdings_locked(s, 3))
    holders += fmt::format("{}{} in {}{}{} ({})", holders.empty() ? "" : ", ", readable(h.bytes),
                           name(h.category), h.scope.empty() ? "" : " of ", h.scope,
                           h.site.substr(0, h.site.find(' ')));
  if (holders.empty()) holders = "nothing";
  for (std::size_t p = 1; p < s.promises.size(); ++p)
    if (s.promises[p].bytes > s.promises[p].drawn)
      by_promise += fmt::format("{}{} for {}", by_promise.empty() ? "; set aside: " : ", ",
                                readable(s.promises[p].bytes - s.promises[p].drawn),
                                s.promises[p].who);
  throw OutOfMemory(fmt::format(
      "out of memory: {} asked for {} ({} bytes), {} ({} bytes) are held, {}; largest holders: {}{}; "
      "smaller batches with an Accumulator, checkpoint(fn) or a higher limit would help; where it is a "
      "tensor of the program's own beside compiled steps, a memory::Room made before compile",
      site, readable(bytes), bytes, readable(s.held_bytes - s.kept_bytes),
      s.held_bytes - s.kept_bytes,
      s.limit ? fmt::format("the limit is {} ({} bytes){}", readable(s.limit), s.limit, by)
              : fmt::format("no limit is set{}", by),
      holders, by_promise));
}

Scope::Id child(State& s, Scope::Id parent, std::string_view part, std::string_view file,
                int line) {
  const auto found = s.children.find(std::pair<Scope::Id, std::string>(parent, part));
  if (found != s.children.end()) return found->second;
  std::string path = s.scopes[parent].path;
  if (!path.empty() && !part.empty()) path += '/';
  path += part;
  file = file.substr(file.find_last_of('/') + 1);
  s.scopes.push_back({std::move(path), fmt::format("{}:{}", file, line), {}});
  const auto id = static_cast<Scope::Id>(s.scopes.size() - 1);
  s.children.emplace(std::pair(parent, std::string(part)), id);
  return id;
}

}  // namespace

const char* name(Category category) {
  static constexpr const char* names[] = {"parameters",  "gradients", "optimizer",
                                          "activations", "workspace", "data"};
  return names[static_cast<int>(category)];
}

Scope::Scope(std::string_view part, const char* file, int line) : before_(this_scope) {
  State& s = state();
  std::lock_guard lock(s.lock);
  this_scope = child(s, before_, part, file, line);
}
Scope::Scope(Id id) : before_(this_scope) { this_scope = id; }
Scope::~Scope() { this_scope = before_; }
Scope::Id Scope::current() { return this_scope; }

Scope::Id Scope::find(std::string_view path, const char* file, int line) {
  State& s = state();
  std::lock_guard lock(s.lock);
  Id id = 0;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    id = child(s, id, path.substr(0, slash), file, line);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return id;
}

std::string Scope::path(Id id) {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.scopes.at(id).path;
}

namespace {

std::string placed(const std::string& line) {
  const Scope::Id scope = Scope::current();
  if (scope == 0) return line;
  const std::size_t end = std::min(line.find('\n'), line.size());
  return line.substr(0, end) + ", in " + Scope::path(scope) + line.substr(end);
}

}  // namespace

Error::Error(const std::string& line) : std::runtime_error(placed(line)) {}

CategoryScope::CategoryScope(Category category) : before_(this_category) {
  this_category = category;
}
CategoryScope::~CategoryScope() { this_category = before_; }
Category CategoryScope::current() { return this_category; }

namespace memory {

namespace {

void check_fault(State& s, std::size_t bytes, const char* site) {
  ++s.takes;
  if (s.fail_at && (s.takes == s.fail_at || (s.fail_forever && s.takes > s.fail_at))) {
    s.failed = true;
    refuse(s, bytes, site, ", and a fault was injected");
  }
  if (bytes > (std::size_t{1} << 46)) refuse(s, bytes, site, "; no machine has that much");
}

// Whether so much more, for this promise, leaves all others theirs; what is kept for reuse goes back
// where the process would hold too much.
void admit(State& s, std::size_t bytes, std::uint64_t charge, std::uint64_t from_system,
           std::uint8_t promise, const char* site) {
  if (!s.limit || this_unguarded) return;
  const Promised& p = s.promises[promise];
  const std::uint64_t more = std::max(p.bytes, p.drawn + charge) - p.taken();
  const std::uint64_t live = s.held_bytes - s.kept_bytes;
  // What was promised is given, as long as it is there.
  const bool promised = this_borrows || more == 0;
  if ((promised ? live + charge : s.taken() + more) > s.limit) refuse(s, bytes, site, "");
  if (s.held_bytes + from_system > s.limit && from_system)
    trim_locked(s, s.limit > live + from_system ? s.limit - live - from_system : 0);
}

constexpr std::uint64_t kMuch = std::uint64_t{1} << 20;  // a request that is worth a look at the system

// From the system, within the limit; what is kept for reuse is given back before it refuses.
template <class Take>
Block* from_system(State& s, std::size_t bytes, std::uint64_t charge, const char* site,
                   Take&& take) {
  admit(s, bytes, charge, charge, this_promise, site);
  if (s.process_limit && !this_unguarded && charge >= kMuch && process::resident() + charge > s.process_limit) {
    trim_locked(s, 0);
    malloc_trim(0);
    const std::uint64_t now = process::resident();
    if (now + charge > s.process_limit)
      refuse(s, bytes, site,
             fmt::format(", of a budget of {}; the process holds {} beside Ebb's tensors",
                         readable(s.process_limit),
                         readable(now - std::min(now, s.held_bytes)))
                 .c_str());
  }
  void* p = take();
  if (!p) {
    trim_locked(s, 0);
    p = take();
  }
  if (!p) refuse(s, bytes, site, ", and the system refused");
  ++s.system_calls;
  s.held_bytes += charge;
  auto* block = static_cast<Block*>(p);
  return block;
}

void* begin(State& s, Block* block, std::size_t bytes, std::size_t charge, const char* site,
            int size_class, Category category) {
  block->bytes = bytes;
  block->charge = charge;
  block->site = site;
  block->scope = this_scope;
  block->size_class = static_cast<std::uint16_t>(size_class);
  block->category = category;
  block->promise = this_promise;
  enter(s, block);
  return block + 1;
}

std::size_t in_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

constexpr std::size_t kHeapBeside = 128;  // what the heap adds to a block: its own head, alignment

std::size_t charge_in_class(int c, std::size_t bytes) {
  const std::size_t size = class_size(c);
  return size < kMapped ? size + kHeapBeside : std::min(size, in_pages(bytes + sizeof(Block)));
}

// A kept block that has more in memory than it is wanted for: where memory is short, the rest leaves.
void shorten(State& s, Block* block, std::size_t bytes, std::size_t size) {
  const std::size_t wanted = in_pages(bytes + sizeof(Block));
  if (!s.limit || size < kMapped || block->charge <= wanted) return;
  madvise(reinterpret_cast<std::byte*>(block) + wanted, size - wanted, MADV_DONTNEED);
  s.held_bytes -= block->charge - wanted;
  s.kept_bytes -= block->charge - wanted;
  block->charge = wanted;
}

}  // namespace

std::uint64_t charge_of(std::size_t bytes) {
  return charge_in_class(class_of(bytes + sizeof(Block)), bytes);
}

void* take(std::size_t bytes, const char* site, Category category) {
  State& s = state();
  std::lock_guard lock(s.lock);
  check_fault(s, bytes, site);
  const int exact = class_of(bytes + sizeof(Block));
  int c = exact;
  // A block up to a quarter larger serves as well, rather than asking the system; not where every
  // byte counts.
  const int end = s.limit ? exact + 1 : std::min(exact + 3, kClasses);
  while (c < end && !s.kept[c]) ++c;
  if (c < end) {
    Block* block = s.kept[c];
    shorten(s, block, bytes, class_size(c));
    const std::size_t charge = std::max(block->charge, charge_in_class(c, bytes));
    admit(s, bytes, charge, charge - block->charge, this_promise, site);
    if (s.kept[c] == block) {  // unless it had to go
      s.kept[c] = block->next;
      s.kept_bytes -= block->charge;
      s.held_bytes += charge - block->charge;
      s.used_at[c] = ++s.tick;
      return begin(s, block, bytes, charge, site, c, category);
    }
  }
  c = exact;
  const std::size_t size = class_size(c), charge = charge_in_class(c, bytes);
  Block* block = from_system(s, bytes, charge, site,
                             [&] { return system_take(size, bytes + sizeof(Block)); });
  s.used_at[c] = ++s.tick;
  return begin(s, block, bytes, charge, site, c, category);
}

void* take_pages(std::size_t bytes, const char* site, Category category) {
  State& s = state();
  std::lock_guard lock(s.lock);
  check_fault(s, bytes, site);
  const std::size_t size = pages_size(bytes);
  Block* head = from_system(s, bytes, size, site, [&] { return map_pages(bytes); });
  Block* block = reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(head) + kPage) - 1;
  return begin(s, block, bytes, size, site, kPages, category);
}

void give(void* bytes) noexcept {
  State& s = state();
  std::lock_guard lock(s.lock);
  Block* block = static_cast<Block*>(bytes) - 1;
  leave(s, block);
  if (block->size_class == kPages) {
    const std::size_t size = pages_size(block->bytes);
    s.held_bytes -= size;
    munmap(reinterpret_cast<std::byte*>(block + 1) - kPage, size);
    return;
  }
  const int c = block->size_class;
  block->next = s.kept[c];
  s.kept[c] = block;
  s.used_at[c] = ++s.tick;
  s.kept_bytes += block->charge;
#if defined(__SANITIZE_ADDRESS__)
  trim_locked(s, 0);  // so that a use after free is seen
#endif
  const std::uint64_t most = s.total.peak + s.total.peak / 4 + kSlack;
  if (s.held_bytes > most)
    trim_locked(s, s.kept_bytes - std::min(s.kept_bytes, s.held_bytes - most));
}

void retag(void* bytes, Category category) noexcept {
  State& s = state();
  std::lock_guard lock(s.lock);
  Block* block = static_cast<Block*>(bytes) - 1;
  leave(s, block);
  block->category = category;
  block->scope = this_scope;
  enter(s, block);
}

void set_limit(std::uint64_t bytes) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.limit = bytes;
  if (bytes && s.held_bytes > bytes)
    trim_locked(s, s.kept_bytes - std::min(s.kept_bytes, s.held_bytes - bytes));
}

void set_process_limit(std::uint64_t bytes) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.process_limit = bytes;
}

Promise::Promise(const char* who) : id_(0) {
  State& s = state();
  std::unique_lock lock(s.lock);
  for (std::size_t i = 1; i < s.promises.size() && id_ == 0; ++i)
    if (!s.promises[i].who) id_ = static_cast<std::uint8_t>(i);
  if (id_ == 0) lock.unlock();  // an Error asks where it is
  if (id_ == 0)
    throw Error(fmt::format("memory: there are {} promises, and no more can be made",
                            s.promises.size() - 1));
  s.promises[id_] = {who, 0, 0};
}

Promise::~Promise() {
  State& s = state();
  std::lock_guard lock(s.lock);
  for (Block* b = s.live.next; b != &s.live; b = b->next)
    if (b->promise == id_) b->promise = 0, s.promises[0].drawn += b->charge;
  s.promises[id_] = {};
}

void Promise::set(std::uint64_t bytes) noexcept {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.promises[id_].bytes = bytes;
}

std::uint64_t Promise::bytes() const {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.promises[id_].bytes;
}

std::uint64_t Promise::drawn() const {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.promises[id_].drawn;
}

std::uint64_t Promise::beside() const {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.taken() - s.promises[id_].taken();
}

Drawing::Drawing(const Promise* from)
    : before_(std::exchange(this_promise, from ? from->id_ : this_promise)) {}
Drawing::~Drawing() { this_promise = before_; }

Buffer up_to(std::size_t bytes, std::size_t least, const char* site, Category category) {
  for (;; bytes = std::max(least, bytes / 2)) {
    try {
      return {bytes, site, category};
    } catch (const OutOfMemory&) {
      if (bytes <= least) throw;
    }
  }
}

Unguarded::Unguarded() : before_(std::exchange(this_unguarded, true)) {}
Unguarded::~Unguarded() { this_unguarded = before_; }

Borrowing::Borrowing() : before_(std::exchange(this_borrows, true)) {
  void (*give_back)() = nullptr;
  {
    State& s = state();
    std::lock_guard lock(s.lock);
    if (s.limit && !before_) give_back = s.give_back;
  }
  if (give_back) give_back();
}
Borrowing::~Borrowing() { this_borrows = before_; }

void on_borrowing(void (*give_back)()) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.give_back = give_back;
}

void draw(void* bytes, const Promise* promise) noexcept {
  State& s = state();
  std::lock_guard lock(s.lock);
  Block* const block = static_cast<Block*>(bytes) - 1;
  s.promises[block->promise].drawn -= block->charge;
  if (block->promise == 0 && promise) less_of_its_own(s, block->charge);
  block->promise = promise ? promise->id_ : 0;
  s.promises[block->promise].drawn += block->charge;
}

std::uint64_t own() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.promises[0].taken();
}

Room::Room(std::uint64_t bytes) : bytes_(bytes) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.room_from = std::max(s.room_from, s.promises[0].drawn);
  s.rooms += bytes;
  s.promises[0].bytes = s.room_from + s.rooms;
}

Room::~Room() {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.rooms -= bytes_;
  if (s.rooms == 0) s.room_from = 0;
  s.promises[0].bytes = s.room_from + s.rooms;
}

std::uint64_t limit() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.limit;
}

std::uint64_t held() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.held_bytes;
}

std::uint64_t system_calls() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.system_calls;
}

void trim() {
  State& s = state();
  std::lock_guard lock(s.lock);
  trim_locked(s, 0);
}

FailTake::FailTake(std::uint64_t nth, bool forever) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.fail_at = s.takes + nth;
  s.fail_forever = forever;
  s.failed = false;
}

FailTake::~FailTake() {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.fail_at = 0;
}

std::uint64_t FailTake::takes() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.takes;
}

bool FailTake::fired() const {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.failed;
}

}  // namespace memory

namespace ledger {

Usage total() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.total;
}

Usage of(Category category) {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.categories[static_cast<int>(category)];
}

std::uint64_t at_peak(Category category) {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.at_peak[static_cast<int>(category)];
}

std::vector<ScopeUsage> scopes() {
  State& s = state();
  std::lock_guard lock(s.lock);
  std::vector<ScopeUsage> used;
  for (const ScopeEntry& e : s.scopes)
    if (e.usage.peak > 0) used.push_back({e.path, e.opened, e.usage});
  return used;
}

std::vector<Holding> holdings(std::size_t most) {
  State& s = state();
  std::lock_guard lock(s.lock);
  return holdings_locked(s, most);
}

void reset_peak() {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.total.peak = s.total.live;
  for (int c = 0; c < kCategories; ++c) {
    s.categories[c].peak = s.categories[c].live;
    s.at_peak[c] = s.categories[c].live;
  }
  for (ScopeEntry& e : s.scopes) e.usage.peak = e.usage.live;
}

std::string table() {
  std::string text =
      fmt::format("{:<12} {:>12} {:>12} {:>12}\n", "memory", "live", "peak", "at peak");
  for (int c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    const Usage usage = of(category);
    text += fmt::format("{:<12} {:>12} {:>12} {:>12}\n", name(category), readable(usage.live),
                        readable(usage.peak), readable(at_peak(category)));
  }
  const Usage all = total();
  text += fmt::format("{:<12} {:>12} {:>12} {:>12}\n", "total", readable(all.live),
                      readable(all.peak), readable(all.peak));
  return text;
}

}  // namespace ledger
}  // namespace ebb
