#include "ebb/exec/spill_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/file_faults.hpp"
#include "ebb/base/ledger.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/base/memory_faults.hpp"
#include "ebb/kernels/checksum.hpp"

namespace ebb::exec {
#if defined(__SANITIZE_THREAD__)  // tests fork, and the child writes from a thread of its own
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace {

namespace fs = std::filesystem;
using file_faults::Call;
using file_faults::Fault;
using file_faults::Repeat;

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * 1024;
constexpr std::size_t kPage = 4096;

// Memory at a multiple of 4096, plus `shift`.
class Bytes {
 public:
  explicit Bytes(std::size_t size, std::size_t shift = 0)
      : all_(static_cast<std::byte*>(
            std::aligned_alloc(kPage, (size + shift) / kPage * kPage + kPage))),
        data_(all_ + shift),
        size_(size) {
    std::memset(data_, 0, size);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { std::free(all_); }

  Bytes& fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < size_; ++i) data_[i] = static_cast<std::byte>(random());
    return *this;
  }
  std::byte& operator[](std::size_t i) { return data_[i]; }
  std::span<std::byte> span() { return {data_, size_}; }
  std::span<std::byte> part(std::size_t from, std::size_t n) { return span().subspan(from, n); }
  bool operator==(const Bytes& o) const {
    return size_ == o.size_ && std::memcmp(data_, o.data_, size_) == 0;
  }

 private:
  std::byte *all_, *data_;
  std::size_t size_;
};

class SpillFileTest : public testing::TestWithParam<bool> {
 protected:
  SpillFileTest() {
    std::string name = "/var/tmp/ebb-spill-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    ::chmod(folder_.c_str(), 0755);
  }
  ~SpillFileTest() override {
    file_faults::clear();
    fs::remove_all(folder_);
  }
  SpillOptions options() const { return {.directory = folder_, .direct = GetParam()}; }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string folder_;
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const FileError& e) {
    const std::string line = e.what();
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(line.find("spill: "), 0u) << line;
    return line;
  }
  ADD_FAILURE() << "no FileError";
  return "";
}
#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

void put(SpillFile& spill, int slot, Bytes& from) { spill.wait(spill.write(slot, from.span())); }
void get(SpillFile& spill, int slot, Bytes& to) { spill.wait(spill.read(slot, to.span())); }

// Changes the file behind its back.
void flip(const SpillFile& spill, std::uint64_t at, std::byte mask) {
  const std::string path = "/proc/self/fd/" + std::to_string(spill.descriptor());
  const int file = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  std::byte value;
  ASSERT_EQ(::pread(file, &value, 1, static_cast<off_t>(at)), 1);
  value ^= mask;
  ASSERT_EQ(::pwrite(file, &value, 1, static_cast<off_t>(at)), 1);
  ::fsync(file);
  ::close(file);
}

TEST_P(SpillFileTest, GivesBackWhatWasWritten) {
  for (const int threads : {1, 2}) {
    SpillOptions o = options();
    o.threads = threads;
    for (const std::uint64_t bytes : {0ul, 1ul, 4095ul, 4096ul, 4097ul, 256 * kKiB, 256 * kKiB + 1,
                                      9 * kMiB, 9 * kMiB + 12345}) {
      for (const std::size_t shift : {0ul, 64ul, 4095ul}) {
        SpillFile spill(o, std::vector<SpillSlot>{{17}, {bytes}, {17}});
        Bytes a(bytes, shift), b(bytes, 0), c(bytes, shift), side(17);
        a.fill(bytes + 1);
        side.fill(5);
        put(spill, 0, side);
        put(spill, 2, side);
        put(spill, 1, a);
        get(spill, 1, b);
        get(spill, 1, c);
        ASSERT_TRUE(a == b && a == c) << bytes << " bytes, shift " << shift;
        Bytes beside(17);
        get(spill, 0, beside);
        ASSERT_TRUE(beside == side);
        get(spill, 2, beside);
        ASSERT_TRUE(beside == side);
      }
    }
  }
}

TEST_P(SpillFileTest, StandsAModelOfItself) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::vector<SpillSlot> slots;
  for (int i = 0; i < 6; ++i) slots.push_back({1 + below(3 * kMiB), i % 2 == 0});
  SpillOptions o = options();
  o.tickets = 3;
  SpillFile spill(o, slots);
  struct Content {
    std::vector<std::byte> now, committed;
  };
  std::vector<Content> model(slots.size());
  const auto same = [&](std::span<std::byte> found, std::uint64_t at, const Content& c) {
    return found.empty() || std::memcmp(found.data(), c.now.data() + at, found.size()) == 0;
  };
  for (int step = 0; step < 150; ++step) {
    const auto i = static_cast<int>(below(slots.size()));
    Content& c = model[static_cast<std::size_t>(i)];
    const std::uint64_t room = slots[static_cast<std::size_t>(i)].bytes;
    switch (below(7)) {
      case 0:
      case 1: {
        const std::uint64_t n = below(3) ? room : below(room + 1);
        Bytes from(n, below(2) ? 0 : below(4096));
        from.fill(random());
        c.now.assign(from.span().begin(), from.span().end());
        put(spill, i, from);
        break;
      }
      case 2:
      case 3: {
        Bytes to(below(2) ? c.now.size() : below(c.now.size() + 1), below(2) ? 0 : below(4096));
        get(spill, i, to);
        ASSERT_TRUE(same(to.span(), 0, c)) << "step " << step;
        break;
      }
      case 4: {
        const std::uint64_t at = below(c.now.size() + 1), n = below(room - at + 1);
        Bytes from(n, below(4096));
        from.fill(random());
        spill.write_now(i, at, from.span());
        if (at + n > c.now.size()) c.now.resize(at + n);
        std::copy(from.span().begin(), from.span().end(),
                  c.now.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      }
      case 5: {
        const std::uint64_t at = below(c.now.size() + 1);
        Bytes to(below(c.now.size() - at + 1), below(4096));
        spill.read_now(i, at, to.span());
        ASSERT_TRUE(same(to.span(), at, c)) << "step " << step;
        break;
      }
      default: {
        const bool commit = below(2);
        commit ? spill.commit() : spill.rollback();
        for (std::size_t k = 0; k < model.size(); k += 2)
          commit ? model[k].committed = model[k].now : model[k].now = model[k].committed;
      }
    }
  }
}

TEST_P(SpillFileTest, KeepsTheOrder) {
  constexpr std::size_t kBytes = 2 * kMiB;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}, {kBytes}});
  Bytes a(kBytes), b(kBytes), x(kBytes), first(kBytes), second(kBytes);
  a.fill(1);
  b.fill(2);
  std::memcpy(x.span().data(), a.span().data(), kBytes);
  spill.wait(spill.write(1, b.span()));
  spill.write(0, x.span());
  spill.read(0, first.span());
  spill.read(1, x.span());  // into memory that is still being written out
  spill.write(0, b.span());
  spill.wait(spill.read(0, second.span()));
  spill.commit();  // waits for all
  EXPECT_TRUE(first == a);
  EXPECT_TRUE(second == b);
  EXPECT_TRUE(x == b);
}

TEST_P(SpillFileTest, ManyTicketsInAShortRing) {
  SpillOptions o = options();
  o.tickets = 2;
  std::vector<SpillSlot> slots(20, {100 * kKiB});
  SpillFile spill(o, slots);
  std::vector<std::unique_ptr<Bytes>> out, in;
  SpillFile::Ticket last{};
  for (int i = 0; i < 20; ++i) {
    out.push_back(std::make_unique<Bytes>(100 * kKiB));
    in.push_back(std::make_unique<Bytes>(100 * kKiB));
    out.back()->fill(static_cast<std::uint64_t>(i));
    last = spill.write(i, out.back()->span());
  }
  for (int i = 0; i < 20; ++i) last = spill.read(i, in[static_cast<std::size_t>(i)]->span());
  spill.wait(last);
  spill.commit();
  for (std::size_t i = 0; i < 20; ++i) EXPECT_TRUE(*out[i] == *in[i]) << i;
  EXPECT_EQ(spill.stats().bytes_written, 20 * 100 * kKiB);
  EXPECT_EQ(spill.stats().bytes_read, 20 * 100 * kKiB);
  EXPECT_GT(spill.stats().busy_seconds, 0);
}

TEST_P(SpillFileTest, GenerationsSwitchTogetherOrNotAtAll) {
  constexpr std::size_t kBytes = kMiB + 100;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes, true}, {kBytes, true}});
  Bytes a(kBytes), b(kBytes), c(kBytes);
  a.fill(1);
  b.fill(2);
  put(spill, 0, a);
  put(spill, 1, a);
  spill.commit();
  put(spill, 0, b);
  get(spill, 0, c);
  EXPECT_TRUE(c == b);
  spill.rollback();
  get(spill, 0, c);
  EXPECT_TRUE(c == a);

  put(spill, 0, b);
  {
    file_faults::Guard guard;
    file_faults::fail_write(1, Fault::enospc, Repeat::from_then_on);
    EXPECT_HAS(error_of([&] { put(spill, 1, b); }), "No space left");
  }
  EXPECT_HAS(error_of([&] { spill.commit(); }), "slot 1");
  EXPECT_HAS(error_of([&] { get(spill, 1, c); }), "write it again");
  spill.rollback();
  for (const int slot : {0, 1}) {
    get(spill, slot, c);
    EXPECT_TRUE(c == a);
  }
  put(spill, 0, b);
  put(spill, 1, b);
  spill.commit();
  spill.rollback();
  for (const int slot : {0, 1}) {
    get(spill, slot, c);
    EXPECT_TRUE(c == b);
  }
}

// Element i begins as i.
class Counted final : public InitialValue {
 public:
  void fill(std::span<std::byte> to, std::uint64_t element) const override {
    for (std::size_t i = 0; i < to.size() / 4; ++i) {
      const auto value = static_cast<std::uint32_t>(element + i);
      std::memcpy(to.data() + 4 * i, &value, 4);
    }
  }
  bool lasting() const override { return true; }
};

TEST_P(SpillFileTest, WhatASlotBeginsWithIsNeverWritten) {
  constexpr std::size_t kBytes = 5 * kMiB / 4 + 100;
  const std::uint64_t writes = file_faults::count(Call::write);
  SpillFile spill(options(),
              std::vector<SpillSlot>{{kBytes, true, std::make_shared<Counted>(), 4}, {kBytes}});
  EXPECT_LE(file_faults::count(Call::write), writes + 1);  // a page, to see whether it can be
  Bytes first(kBytes), found(kBytes), written(kBytes);
  Counted().fill(first.span(), 0);
  written.fill(3);
  get(spill, 0, found);
  EXPECT_TRUE(found == first);
  Bytes part(kMiB);
  spill.read_now(0, 16 * kKiB, part.span());
  EXPECT_EQ(std::memcmp(part.span().data(), first.span().data() + 16 * kKiB, kMiB), 0);

  // A part of it written: the rest of the granule is what it was.
  spill.write_now(0, 300 * kKiB, written.part(300 * kKiB, 10 * kKiB));
  Bytes mixed(kBytes);
  std::memcpy(mixed.span().data(), first.span().data(), kBytes);
  std::memcpy(&mixed[300 * kKiB], &written[300 * kKiB], 10 * kKiB);
  get(spill, 0, found);
  EXPECT_TRUE(found == mixed);
  spill.rollback();
  get(spill, 0, found);
  EXPECT_TRUE(found == first);

  put(spill, 0, written);
  spill.commit();
  spill.rollback();
  get(spill, 0, found);
  EXPECT_TRUE(found == written);
  EXPECT_HAS(error_of([&] { get(spill, 1, found); }), "write them first");
}

TEST_P(SpillFileTest, AFailedWriteLeavesNoMixture) {
  constexpr std::size_t kBytes = 6 * kMiB;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
  Bytes a(kBytes), b(kBytes), c(kBytes);
  a.fill(1);
  b.fill(2);
  put(spill, 0, a);
  file_faults::Guard guard;
  for (const std::uint64_t nth : {1, 2}) {
    for (const Fault fault : {Fault::enospc, Fault::eio}) {
      file_faults::fail_write(nth, fault);
      const std::string line = error_of([&] { put(spill, 0, b); });
      EXPECT_HAS(line, fault == Fault::eio ? "Input/output error" : "No space left");
      EXPECT_HAS(line, folder_);
      EXPECT_HAS(line, "offset");
      file_faults::clear();
      // Any byte of it, wherever the write broke off.
      for (std::uint64_t at = 0; at < kBytes; at += 256 * kKiB)
        error_of([&] { spill.read_now(0, at, c.part(0, 1)); });
      put(spill, 0, b);  // and it goes on
      get(spill, 0, c);
      EXPECT_TRUE(c == b);
    }
  }
  file_faults::fail_write(1, Fault::eio);
  error_of([&] { spill.write_now(0, 100, a.part(0, 1000)); });
  error_of([&] { get(spill, 0, c); });
  put(spill, 0, a);
  get(spill, 0, c);
  EXPECT_TRUE(c == a);
}

TEST_P(SpillFileTest, AFailedReadCanBeRepeated) {
  constexpr std::size_t kBytes = 3 * kMiB + 5;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
  Bytes a(kBytes), c(kBytes);
  a.fill(1);
  put(spill, 0, a);
  file_faults::Guard guard;
  file_faults::fail_read(1, Fault::eio);
  EXPECT_HAS(error_of([&] { get(spill, 0, c); }), "slot 0");
  get(spill, 0, c);
  EXPECT_TRUE(c == a);
}

TEST_P(SpillFileTest, ShortCountsAreContinued) {
  constexpr std::size_t kBytes = 3 * kMiB + 5;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
  Bytes a(kBytes), c(kBytes);
  a.fill(1);
  file_faults::Guard guard;
  file_faults::fail_write(1, Fault::short_count, Repeat::from_then_on);
  file_faults::fail_read(1, Fault::short_count, Repeat::from_then_on);
  put(spill, 0, a);
  get(spill, 0, c);
  EXPECT_TRUE(c == a);
}

TEST_P(SpillFileTest, AnErrorNobodyWaitedForIsNotLost) {
  SpillOptions o = options();
  o.tickets = 1;
  SpillFile spill(o, std::vector<SpillSlot>{{kPage}, {kPage, true}});
  Bytes a(kPage);
  file_faults::Guard guard;
  file_faults::fail_write(1, Fault::eio);
  spill.write(0, a.span());
  error_of([&] { spill.write(0, a.span()); });
  file_faults::fail_write(1, Fault::eio);
  spill.write(1, a.span());
  error_of([&] { spill.commit(); });
  error_of([&] { spill.commit(); });
  spill.rollback();
  spill.commit();
  file_faults::fail_write(1, Fault::eio);
  spill.write(1, a.span());
  spill.rollback();  // it is of no interest any more
  spill.write(1, a.span());
  spill.commit();
}

TEST_P(SpillFileTest, FlippedBitsAreFound) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::size_t kBytes = kMiB + 77;
  SpillFile spill(options(), std::vector<SpillSlot>{{123}, {kBytes, true}});
  Bytes a(kBytes), c(kBytes);
  a.fill(seed);
  put(spill, 1, a);
  for (int i = 0; i < 40; ++i) {
    const std::uint64_t at = spill.offset_of(1) + random() % kBytes;
    const auto mask = static_cast<std::byte>(1u << (random() % 8));
    flip(spill, at, mask);
    const std::string line = error_of([&] { get(spill, 1, c); });
    EXPECT_HAS(line, "slot 1 has changed on the disk");
    EXPECT_HAS(line, "offset");
    EXPECT_HAS(line, "checkpoint");
    flip(spill, at, mask);
  }
  get(spill, 1, c);
  EXPECT_TRUE(c == a);
}

TEST_P(SpillFileTest, ExchangedGranulesAreFound) {
  constexpr std::size_t kBytes = 256 * kKiB;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}, {kBytes}});
  Bytes a(kBytes), b(kBytes), c(kBytes);
  a.fill(1);
  b.fill(2);
  put(spill, 0, a);
  put(spill, 1, b);
  const std::string path = "/proc/self/fd/" + std::to_string(spill.descriptor());
  const int file = ::open(path.c_str(), O_RDWR);
  ASSERT_EQ(::pwrite(file, b.span().data(), kBytes, static_cast<off_t>(spill.offset_of(0))),
            static_cast<ssize_t>(kBytes));
  ::fsync(file);
  ::close(file);
  error_of([&] { get(spill, 0, c); });
}

TEST_P(SpillFileTest, ATruncatedFileIsFound) {
  constexpr std::size_t kBytes = 2 * kMiB;
  for (const std::uint64_t left : {std::uint64_t{0}, kMiB, kMiB + 100, 2 * kMiB - 1}) {
    SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
    Bytes a(kBytes), c(kBytes);
    put(spill, 0, a.fill(1));
    ASSERT_EQ(::ftruncate(spill.descriptor(), static_cast<off_t>(left)), 0);
    const std::string line = error_of([&] { get(spill, 0, c); });
    EXPECT_HAS(line, "cut short");
    EXPECT_HAS(line, "ends at " + std::to_string(left));
    put(spill, 0, a);
    get(spill, 0, c);
    EXPECT_TRUE(c == a);
  }
}

TEST_P(SpillFileTest, WhatWasNotWrittenIsNotRead) {
  SpillFile spill(options(), std::vector<SpillSlot>{{kMiB}, {10}});
  Bytes a(1000), c(1001);
  error_of([&] { get(spill, 0, c); });
  put(spill, 0, a);
  error_of([&] { get(spill, 0, c); });
  error_of([&] { spill.write_now(0, 2000, a.span()); });  // would leave a gap
  put(spill, 0, a);
  Bytes whole(kMiB), nothing(0);
  put(spill, 0, whole);
  put(spill, 0, a);  // shorter: the rest is gone
  error_of([&] { spill.read_now(0, 512 * kKiB, c.span()); });
  put(spill, 0, nothing);
  error_of([&] { spill.read_now(0, 0, c.part(0, 1)); });
  EXPECT_THROW(spill.write(2, a.span()), Error);
  EXPECT_THROW(spill.write(-1, a.span()), Error);
  EXPECT_THROW(spill.write(1, a.span()), Error);
  EXPECT_THROW(spill.read_now(1, ~0ull, a.span()), Error);
  EXPECT_THROW(spill.wait({1000}), Error);
  spill.wait({});
}

TEST_P(SpillFileTest, LeavesNothingInTheDirectory) {
  SpillFile spill(options(), std::vector<SpillSlot>{{kMiB}});
  EXPECT_EQ(files(), 0u);
  struct stat info;
  ASSERT_EQ(::fstat(spill.descriptor(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0u);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, kMiB);  // reserved, not just long
}

TEST_P(SpillFileTest, IsGoneAfterKill9) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    SpillFile spill(options(), std::vector<SpillSlot>{{kMiB}});
    Bytes a(kMiB);
    put(spill, 0, a);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char c;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  ::kill(child, SIGKILL);
  int status;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(files(), 0u);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_P(SpillFileTest, RefusesADirectoryThatWillNotDo) {
  const std::vector<SpillSlot> slots{{kMiB}};
  SpillOptions o = options();
  o.directory = folder_ + "/missing";
  EXPECT_HAS(error_of([&] { SpillFile spill(o, slots); }), "/missing\": No such file");
  const std::string file = folder_ + "/file";
  ::close(::open(file.c_str(), O_CREAT | O_WRONLY, 0600));
  o.directory = file;
  EXPECT_HAS(error_of([&] { SpillFile spill(o, slots); }), "Not a directory");
  o = options();
  o.bytes = kMiB - 1;
  EXPECT_THROW(SpillFile(o, slots), Error);

  file_faults::Guard guard;
  file_faults::fail(Call::open, 1, Fault::eio);
  error_of([&] { SpillFile spill(options(), slots); });
  file_faults::fail(Call::reserve, 1, Fault::enospc);
  const std::string line = error_of([&] { SpillFile spill(options(), slots); });
  EXPECT_HAS(line, "1048576 bytes are needed");
  EXPECT_HAS(line, "are free there");
  // More than the disk has: found at once, nothing taken.
  const std::vector<SpillSlot> huge{{std::uint64_t{1} << 55}};
  EXPECT_HAS(error_of([&] { SpillFile spill(options(), huge); }), "No space left");
}

TEST_P(SpillFileTest, RefusesADirectoryThatIsReadOnly) {
  ::chmod(folder_.c_str(), 0555);
  int line[2];
  ASSERT_EQ(::pipe(line), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    std::string text = "no error";
    try {
      SpillFile spill(options(), std::vector<SpillSlot>{{kPage}});
    } catch (const FileError& e) {
      text = e.what();
    }
    ::_exit(::write(line[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  int status;
  ::waitpid(child, &status, 0);
  ::chmod(folder_.c_str(), 0755);
  ASSERT_EQ(status, 0);
  char text[1000] = {};
  ASSERT_GT(::read(line[0], text, sizeof text - 1), 0);
  EXPECT_HAS(std::string(text), "spill: ");
  EXPECT_HAS(std::string(text), "Permission denied");
  ::close(line[0]);
  ::close(line[1]);
}

TEST_P(SpillFileTest, RefusesMemoryAsADisk) {
  SpillOptions o = options();
  o.directory = "/dev/shm";
  const std::vector<SpillSlot> slots{{kMiB + 1}};
  try {
    SpillFile spill(o, slots);
    GTEST_SKIP() << "/dev/shm is not a tmpfs here";
  } catch (const FileError& e) {
    EXPECT_HAS(std::string(e.what()), "tmpfs");
  }
  o.allow_memory = true;
  SpillFile spill(o, slots);
  Bytes a(kMiB + 1), c(kMiB + 1);
  put(spill, 0, a.fill(3));
  get(spill, 0, c);
  EXPECT_TRUE(a == c);
}

TEST_P(SpillFileTest, MemoryIsCountedAndFailsCleanly) {
  const std::vector<SpillSlot> slots{{10 * kMiB}, {5000, true}};
  const std::uint64_t before = ledger::total().live;
  {
    SpillFile spill(options(), slots);
    EXPECT_EQ(ledger::total().live - before, SpillFile::memory_bytes(options(), slots));
    EXPECT_LT(ledger::total().live - before, 600 * kKiB);
    struct stat info;
    ::fstat(spill.descriptor(), &info);
    EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), SpillFile::file_bytes(slots));
    EXPECT_EQ(SpillFile::file_bytes(slots), 10 * kMiB + 2 * 8192);
  }
  EXPECT_EQ(ledger::total().live, before);
  for (const int nth : {1, 2, 3}) {
    memory::FailTake fail(static_cast<std::uint64_t>(nth));
    EXPECT_THROW(SpillFile(options(), slots), OutOfMemory);
  }
  EXPECT_EQ(ledger::total().live, before);
}

// Pages of the file in the page cache.
TEST_P(SpillFileTest, LeavesNoPageCacheBehind) {
  constexpr std::size_t kBytes = 16 * kMiB + 100;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
  Bytes a(kBytes), c(kBytes);
  put(spill, 0, a.fill(3));
  get(spill, 0, c);
  const std::size_t length = SpillFile::file_bytes(std::vector<SpillSlot>{{kBytes}});
  void* map = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, spill.descriptor(), 0);
  ASSERT_NE(map, MAP_FAILED);
  std::vector<unsigned char> pages(length / kPage);
  ASSERT_EQ(::mincore(map, length, pages.data()), 0);
  ::munmap(map, length);
  std::size_t cached = 0;
  for (const unsigned char p : pages) cached += p & 1;
  EXPECT_LE(cached, 16u);
}

TEST_P(SpillFileTest, ASyncThatFailsIsAnError) {
  if (GetParam()) GTEST_SKIP() << "direct transfers are not synced";
  SpillFile spill(options(), std::vector<SpillSlot>{{kMiB}});
  Bytes a(kMiB);
  file_faults::Guard guard;
  file_faults::fail_sync(1, Fault::eio);
  EXPECT_HAS(error_of([&] { put(spill, 0, a); }), "write back");
  error_of([&] { get(spill, 0, a); });
}

INSTANTIATE_TEST_SUITE_P(SpillFile, SpillFileTest, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Direct") : std::string("Buffered");
});

TEST(Checksum, SeesEveryBitEveryLengthAndEveryExchange) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const bool zeros : {true, false}) {
    Bytes a(1000, 3);
    if (!zeros) a.fill(seed);
    const auto sum = [&](std::size_t n) { return kernels::checksum(a.span().data(), n, 7); };
    const std::uint64_t whole = sum(1000);
    EXPECT_NE(whole, kernels::checksum(a.span().data(), 1000, 8));
    for (std::size_t n = 0; n < 1000; ++n) ASSERT_NE(sum(n), sum(n + 1)) << n;
    for (std::size_t bit = 0; bit < 8000; ++bit) {
      a[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      ASSERT_NE(sum(1000), whole) << bit;
      a[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    if (zeros) continue;
    for (std::size_t i = 0; i + 8 <= 1000; i += 8) {
      for (std::size_t j = i + 8; j + 8 <= 1000; j += 8) {
        std::swap_ranges(&a[i], &a[i] + 8, &a[j]);
        ASSERT_NE(sum(1000), whole) << i << ' ' << j;
        std::swap_ranges(&a[i], &a[i] + 8, &a[j]);
      }
    }
    Bytes b(1000, 0);
    std::memcpy(b.span().data(), a.span().data(), 1000);
    EXPECT_EQ(kernels::checksum(b.span().data(), 1000, 7), whole);
  }
}

}  // namespace
}  // namespace ebb::exec
