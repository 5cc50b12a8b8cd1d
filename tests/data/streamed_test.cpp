// Rows that stay in their files: the batches of memory, less memory, and files that change.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/data/dataset.hpp"
#include "ebb/data/files/digits.hpp"
#include "ebb/data/files/mnist.hpp"
#include "ebb/data/files/text.hpp"
#include "ebb/data/source.hpp"
#include "ebb/io/array/npy.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

namespace fs = std::filesystem;

using test::error_of;

bool same(const Batch& a, const Batch& b) {
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    const Tensor &x = a.values()[i], &y = b.values()[i];
    if (x.spec() != y.spec() || std::memcmp(x.raw(), y.raw(), x.spec().bytes()) != 0) return false;
  }
  return a.names() == b.names();
}

void expect_same(const Dataset& a, const Dataset& b, std::int64_t epochs = 2) {
  EXPECT_EQ(a.spec(), b.spec());
  auto x = a.walk(epochs), y = b.walk(epochs);
  std::int64_t batches = 0;
  for (;; ++batches) {
    const Batch *one = x.next(), *other = y.next();
    if (!one || !other) {
      EXPECT_EQ(one, other) << "one ends first";
      break;
    }
    EXPECT_TRUE(same(*one, *other)) << to_string(x.position());
    EXPECT_EQ(x.position(), y.position()) << "a position does not say where rows lie";
  }
  EXPECT_EQ(batches, epochs * a.batches());
}

// In memory and in a file, in order and shuffled, whole and in part, with all that can be set.
void expect_same_in_every_way(const Dataset& memory, const Dataset& file) {
  const std::int64_t n = memory.size();
  ASSERT_EQ(file.size(), n);
  EXPECT_TRUE(same(memory.all(), file.all()));
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, n, n + 3})
    for (const int ahead : {0, 2}) {
      const auto set = [&](const Dataset& d) { return d.batch(rows).prefetch(ahead); };
      expect_same(set(memory), set(file));
      expect_same(set(memory.shuffle(3)), set(file.shuffle(3)));
      expect_same(set(memory.rows(n / 3, n).shuffle(3)), set(file.rows(n / 3, n).shuffle(3)));
      expect_same(set(memory.rows(1, n / 2)), set(file.rows(1, n / 2)));
    }
}

class StreamedTest : public testing::Test {
 protected:
  StreamedTest() {
    std::string name = (fs::temp_directory_path() / "ebb-rows-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~StreamedTest() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string put(const std::string& name, const std::string& content) {
    fs::remove(path(name));
    File::create(path(name)).write(content);
    return path(name);
  }
  std::string put_npy(const std::string& name, const Tensor& values) {
    save_npy(path(name), values);
    return path(name);
  }
  // Drawn digits, as the files of MNIST: big-endian sizes, then bytes.
  void put_mnist(std::int64_t count) {
    const Dataset drawn = data::digits(count, 1);
    const auto size = static_cast<std::uint32_t>(count);
    const auto big = [](std::uint32_t n) {
      return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16),
                         static_cast<char>(n >> 8), static_cast<char>(n)};
    };
    std::string images = std::string("\0\0\x08\x03", 4) + big(size) + big(28) + big(28);
    std::string labels = std::string("\0\0\x08\x01", 4) + big(size);
    for (const Batch& b : drawn.batch(100).epochs(1)) {
      for (const float x : b["image"].data<float>())
        images += static_cast<char>(static_cast<std::uint8_t>(x * 255 + 0.5f));
      for (const std::int32_t y : b["label"].data<std::int32_t>()) labels += static_cast<char>(y);
    }
    put("train-images-idx3-ubyte", images);
    put("train-labels-idx1-ubyte", labels);
  }
  std::string folder_;
};

const data::MnistOptions kStreamed{.in_memory = false};

TEST_F(StreamedTest, MnistGivesTheBatchesOfMemory) {
  put_mnist(200);
  expect_same_in_every_way(data::mnist(folder_),
                           data::mnist(folder_, data::Split::train, kStreamed));
}

TEST_F(StreamedTest, NpyGivesTheBatchesOfMemory) {
  const Tensor x = Tensor::arange(60 * 6, DType::f32).viewed({60, 2, 3});
  const Tensor y = Tensor::arange(60, DType::i64), z = Tensor::arange(60, DType::u8);
  const std::string px = put_npy("x", x), py = put_npy("y", y), pz = put_npy("z", z);
  const Dataset memory = Dataset::of({{"x", x}, {"y", y}, {"z", z}}).scale("z", 0.5f);
  const Dataset file =
      Dataset::of({{"x", data::npy_rows(px)}, {"y", data::npy_rows(py)}, {"z", data::npy_rows(pz)}})
          .scale("z", 0.5f);
  expect_same_in_every_way(memory, file);
  expect_same_in_every_way(
      memory, Dataset::of({{"x", data::npy_rows(px)}, {"y", y}, {"z", z}}).scale("z", 0.5f));
}

TEST_F(StreamedTest, RowsLargerThanTheBufferAndFarApart) {
  const Tensor wide = Tensor::arange(9 * 100'003, DType::f32).viewed({9, 100'003});
  expect_same_in_every_way(Dataset::of({{"x", wide}}),
                           Dataset::of({{"x", data::npy_rows(put_npy("wide", wide))}}));
  const Tensor many = Tensor::arange(3000 * 700, DType::f32).viewed({3000, 700});
  const Dataset file = Dataset::of({{"x", data::npy_rows(put_npy("many", many))}});
  for (const std::int64_t rows : {10, 999})
    expect_same(Dataset::of({{"x", many}}).shuffle(1).batch(rows), file.shuffle(1).batch(rows), 1);
}

TEST_F(StreamedTest, OfTheOtherByteOrder) {
  const std::string idx =
      put("i", std::string("\0\0\x0c\x01\0\0\0\x03\xff\xff\xff\xfe\0\0\0\x05\0\0\1\0", 20));
  EXPECT_EQ(Dataset::of({{"x", data::idx_rows(idx)}}).all()["x"].to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-2, 5, 256}));
  std::string npy(std::string("\x93NUMPY\x01\0\x76\0", 10) +
                  "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }");
  npy.resize(127, ' ');
  npy += std::string("\n\x3f\xc0\0\0\xc0\0\0\0", 9);
  const std::string file = put("f.npy", npy);
  EXPECT_EQ(load_npy(file).to_vector<float>(), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(Dataset::of({{"x", data::npy_rows(file)}}).all()["x"].to_vector<float>(),
            (std::vector<float>{1.5f, -2}));
}

TEST_F(StreamedTest, NoRowsAndRowsOfNothing) {
  const Dataset none = Dataset::of({{"x", data::npy_rows(put_npy("n", Tensor::zeros({0, 4})))}});
  EXPECT_EQ(none.all().rows(), 0);
  EXPECT_HAS(error_of([&] { none.shuffle(1).batch(2).prefetch(1).epochs(2); }), "has no rows");
  const Tensor narrow = Tensor::zeros({5, 0});
  expect_same_in_every_way(Dataset::of({{"x", narrow}}),
                           Dataset::of({{"x", data::npy_rows(put_npy("w", narrow))}}));
  EXPECT_HAS(error_of([&] { data::npy_rows(put_npy("s", Tensor::scalar(1))); }), "expected rows");
  const std::string single = put("f", std::string("\0\0\x0d\x00\x3f\xc0\0\0", 8));
  EXPECT_HAS(error_of([&] { data::idx_rows(single); }), "it is a single number; expected rows");
}

TEST_F(StreamedTest, TextGivesTheWindowsOfMemory) {
  std::string words;
  for (int i = 0; i < 700; ++i) words += static_cast<char>(32 + i * i % 91);
  const std::string file = put("words", words);
  for (const auto& [window, stride] :
       {std::pair<std::int64_t, std::int64_t>{64, 0}, {10, 3}, {1, 1}, {5, 50}, {699, 1}}) {
    const auto memory = data::text(words, {.window = window, .stride = stride});
    for (const bool in_memory : {false, true}) {
      const auto read =
          data::text_file(file, {.window = window, .stride = stride, .in_memory = in_memory});
      EXPECT_EQ(read.vocabulary.characters(), memory.vocabulary.characters());
      if (memory.windows.size() > 1) {
        expect_same_in_every_way(memory.windows, read.windows);
      } else {
        expect_same(memory.windows.batch(1), read.windows.batch(1));
      }
    }
  }
  EXPECT_HAS(error_of([&] { data::text_file(put("few", "abc"), {.window = 3}); }),
             "few\": 3 characters are too few for a window of 3");
  EXPECT_HAS(error_of([&] { data::text_file(path("none")); }), "cannot open");
}

TEST_F(StreamedTest, ATextIsHeldOnceAByteEach) {
  const std::string words(100'000, 'a');
  const auto live = ledger::total().live;
  ledger::reset_peak();
  const auto memory = data::text(words, {.window = 10, .stride = 1});
  EXPECT_LT(ledger::total().peak - live, 101'000u);
  const std::string file = put("words", words);
  ledger::reset_peak();
  const auto before = ledger::total().live;
  const auto streamed = data::text_file(file, {.window = 10, .in_memory = false});
  EXPECT_LT(ledger::total().peak - before, 70'000u);
  EXPECT_EQ(ledger::total().live, before) << "nothing of it stays";
}

// MNIST is loaded into place, labels and images a byte each; in its file it takes the labels alone.
TEST_F(StreamedTest, MnistTakesNoMoreThanItsBytes) {
  put_mnist(1000);
  const auto live = ledger::total().live;
  ledger::reset_peak();
  {
    const Dataset data = data::mnist(folder_);
    EXPECT_LT(ledger::total().peak - live, 1000 * 785 + 1000u);
  }
  ledger::reset_peak();
  const Dataset data = data::mnist(folder_, data::Split::train, kStreamed);
  EXPECT_LT(ledger::total().peak - live, 2000u);
}

// What a walk takes is never above what it said, and it does not say much more.
TEST_F(StreamedTest, WalkingBytesAreThePeakOfAWalk) {
  put_mnist(2000);
  const Dataset memory = data::mnist(folder_);
  const Dataset file = data::mnist(folder_, data::Split::train, kStreamed);
  const Tensor x = Tensor::zeros({2000, 300});
  const Dataset plain = Dataset::of({{"x", x}}),
                both = Dataset::of({{"x", x}, {"z", data::npy_rows(put_npy("x", x))}});
  std::string words(40'000, 'b');
  const Dataset text = data::text_file(put("w", words), {.window = 99, .in_memory = false}).windows;
  for (const Dataset& rows : {memory, file, plain, both, text})
    for (const Dataset& data : {rows, rows.shuffle(2)})
      for (const std::int64_t batch : {1, 100, 999, 5000})
        for (const int ahead : {0, 1, 3}) {
          const Dataset set = data.batch(batch).prefetch(ahead);
          memory::trim();
          const auto live = ledger::total().live, held = memory::held();
          ledger::reset_peak();
          const std::uint64_t said = set.walking_bytes();
          const auto peak = [&] { return ledger::total().peak - live; };
          // Each buffer is taken for up to an eighth and a page more than it holds.
          const auto buffers =
              static_cast<std::uint64_t>(ahead + 1) * set.spec().values().size() + 3;
          const auto near = [&] { return said <= peak() + peak() / 8 + 4096 * buffers; };
          const bool far_enough = set.batches() > ahead;
          std::uint64_t most_held = 0;
          std::int64_t seen = 0;
          for (const Batch& b : set.epochs(2)) {
            EXPECT_GE(b.rows(), 1);
            // The thread that works ahead is given the time to be as far ahead as it may.
            for (int i = 0; seen == 0 && far_enough && !near() && i < 2000; ++i)
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            most_held = std::max(most_held, memory::held() - held);
            if (++seen == 40) break;
          }
          const std::string where =
              to_string(set.walk(1).position()) + " ahead " + std::to_string(ahead);
          EXPECT_LE(peak(), said) << where;
          EXPECT_EQ(near() || !far_enough, true) << where << ": " << peak() << " of " << said;
          if (data.size() % batch == 0) {  // what a ragged one leaves is kept for reuse, too
            EXPECT_LE(most_held, said) << "as the seam counts it, " << where;
          }
        }
  EXPECT_EQ(plain.rows(0, 3).batch(4, {.drop_last = true}).walking_bytes(), 0u);
  EXPECT_HAS(error_of([&] { (void)plain.walking_bytes(); }), "call .batch(n) first");
}

// With that much to take and no more, a walk comes through.
TEST_F(StreamedTest, AWalkComesThroughWithItsWalkingBytes) {
  put_mnist(1000);
  for (const bool in_memory : {true, false})
    for (const int ahead : {0, 2}) {
      const Dataset data = data::mnist(folder_, data::Split::train, {.in_memory = in_memory})
                               .shuffle(1)
                               .batch(100)
                               .prefetch(ahead);
      memory::trim();
      memory::set_limit(memory::held() + data.walking_bytes());
      std::int64_t rows = 0;
      EXPECT_NO_THROW(for (const Batch& b : data.epochs(2)) rows += b.rows());
      memory::set_limit(0);
      EXPECT_EQ(rows, 2000);
    }
}

// Pages of a file that are in memory.
std::size_t cached_bytes(const std::string& path) {
  const File file = File::open(path);
  const std::size_t size = file.size();
  void* const all = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  EXPECT_EQ(::mincore(all, size, pages.data()), 0);
  ::munmap(all, size);
  return static_cast<std::size_t>(
             std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; })) *
         4096;
}

// Without a budget the system may keep it, for the next epoch.
TEST_F(StreamedTest, WithoutABudgetWhatWasReadStaysInThePageCache) {
  const std::string file = put_npy("x", Tensor::zeros({20'000, 784}, DType::u8));
  {
    File written = File::open(file);
    written.sync();
    if (written.in_memory()) GTEST_SKIP() << "a file system in memory";
    ::posix_fadvise(written.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
  const Dataset rows = Dataset::of({{"x", data::npy_rows(file)}});
  for (const Batch& b : rows.shuffle(1).batch(100).epochs(1)) ASSERT_EQ(b.rows(), 100);
  EXPECT_GT(cached_bytes(file), 8'000'000u);
}

// Under one it does not, also where another program has read the file, in whichever pieces the kernel then
// keeps it.
TEST_F(StreamedTest, WhatWasReadLeavesThePageCache) {
  const Budget budget(1_GiB);
  const std::string file = put_npy("x", Tensor::zeros({20'000, 784}, DType::u8));
  {
    File written = File::open(file);
    written.sync();
    if (written.in_memory()) GTEST_SKIP() << "a file system in memory";
    std::vector<std::byte> piece(100'000);
    while (written.read_some(piece)) {
    }
  }
  EXPECT_GT(cached_bytes(file), 8'000'000u);
  const Dataset rows = Dataset::of({{"x", data::npy_rows(file)}});
  std::int64_t batches = 0;
  for (const Batch& b : rows.shuffle(1).batch(100).epochs(1)) batches += b.rows() / 100;
  EXPECT_EQ(batches, 200);
  EXPECT_LT(cached_bytes(file), 500'000u);
  EXPECT_EQ(rows.all().rows(), 20'000);
  EXPECT_LT(cached_bytes(file), 500'000u);
  std::ofstream(path("i"), std::ios::binary)
      << std::string("\0\0\x08\x02\0\0\x4e\x20\0\0\3\x10", 12) << std::string(20'000 * 784, 'i');
  File::open(path("i")).sync();
  EXPECT_EQ(data::load_idx(path("i")).dim(0), 20'000);
  EXPECT_LT(cached_bytes(path("i")), 500'000u) << "loaded whole";
}

TEST_F(StreamedTest, AFileThatChangesIsOneClearError) {
  for (const int ahead : {0, 2})
    for (const char* change : {"cut", "longer", "other"}) {
      put_mnist(200);
      const std::string images = path("train-images-idx3-ubyte");
      const Dataset data =
          data::mnist(folder_, data::Split::train, kStreamed).shuffle(1).batch(10).prefetch(ahead);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a file's time has a grain
      std::int64_t batches = 0;
      const std::string line = error_of([&] {
        for (const Batch& b : data.epochs(4)) {
          if (b.rows() && batches++ != 3) continue;
          if (std::strcmp(change, "cut") == 0) fs::resize_file(images, 5000);
          if (std::strcmp(change, "longer") == 0) fs::resize_file(images, 500'000);
          if (std::strcmp(change, "other") == 0)
            std::fstream(images, std::ios::in | std::ios::out).seekp(99) << "x";
        }
      });
      EXPECT_HAS(line, "read \"" + images + "\": it has changed since it was opened (156816");
      EXPECT_LE(batches, 4 + ahead + 1) << "and soon";
    }
  const std::string words = put("words", "abcabcabcabcabcabc");
  const Dataset text = data::text_file(words, {.window = 4, .in_memory = false}).windows;
  const auto time = fs::last_write_time(words);
  std::fstream(words, std::ios::in | std::ios::out).seekp(3) << "x";
  fs::last_write_time(words, time);
  EXPECT_HAS(error_of([&] { (void)text.all(); }), "it has changed since") << "an unknown character";
}

// A new version put in place of the old one is another file: the walk goes on with what it opened.
TEST_F(StreamedTest, AFileThatIsReplacedStaysAsItWasOpened) {
  const Tensor x = Tensor::arange(100, DType::f32);
  const Dataset data = Dataset::of({{"x", data::npy_rows(put_npy("x", x))}}).batch(10);
  put_npy("x", Tensor::zeros({7}));
  expect_same(Dataset::of({{"x", x}}).batch(10), data);
}

// Every read fails in turn, every take of memory fails in turn: the error reaches the loop, nothing
// hangs and nothing is lost, and a walk from where it was gives the rest.
TEST_F(StreamedTest, FaultsReachTheLoop) {
  put_mnist(60);
  for (const int ahead : {0, 1, 3}) {
    const Dataset data =
        data::mnist(folder_, data::Split::train, kStreamed).shuffle(1).batch(10).prefetch(ahead);
    std::vector<Batch> all;
    for (const Batch& b : data.epochs(1)) all.push_back(b);
    const auto live = ledger::total().live;
    const auto walked = [&](auto&& failed) {
      bool threw = false;
      data::Position at;
      {
        auto walk = data.walk(1);
        std::size_t done = 0;
        try {
          while (const Batch* b = walk.next()) EXPECT_TRUE(same(*b, all.at(done++)));
        } catch (const Error&) {
          threw = true;
        }
        at = walk.position();
        EXPECT_EQ(static_cast<std::int64_t>(done), threw ? at.batch : 6);
      }
      EXPECT_EQ(ledger::total().live, live);
      EXPECT_EQ(threw, failed());
      file_faults::clear();
      auto rest = data.walk(1, at);
      for (auto done = static_cast<std::size_t>(at.batch); const Batch* b = rest.next(); ++done)
        EXPECT_TRUE(same(*b, all.at(done)));
      return threw;
    };
    int reads = 0, takes = 0;
    for (std::uint64_t n = 1; n < 200; ++n) {
      const file_faults::Guard guard;
      const std::uint64_t before = file_faults::count(file_faults::Call::read);
      file_faults::fail_read(n, file_faults::Fault::eio);
      const auto failed = [&] { return file_faults::count(file_faults::Call::read) >= before + n; };
      if (!walked(failed)) break;
      ++reads;
    }
    EXPECT_GT(reads, 6);
    for (std::uint64_t n = 1; n < 200; ++n) {
      bool threw = false;
      {
        memory::FailTake fault(n);
        try {
          for (const Batch& b : data.epochs(1)) EXPECT_LE(b.rows(), 10);
        } catch (const OutOfMemory&) {
          threw = true;
        }
        EXPECT_EQ(threw, fault.fired());
      }
      EXPECT_EQ(ledger::total().live, live);
      if (!threw) break;
      ++takes;
    }
    EXPECT_EQ(takes, 1 + 6 * 4) << "the order; two columns, the list of rows and the buffer each";
    for (std::uint64_t n = 1; n < 20; ++n) {  // a short count is no error
      const file_faults::Guard guard;
      file_faults::fail_read(n, file_faults::Fault::short_count, file_faults::Repeat::from_then_on);
      EXPECT_FALSE(walked([] { return false; }));
    }
  }
}

TEST_F(StreamedTest, LoadingMeetsFaultsAsOneError) {
  put_mnist(20);
  const std::string words = put("words", std::string(200'000, 'c'));
  const auto live = ledger::total().live;
  for (const bool in_memory : {true, false}) {
    const auto load = [&] {
      (void)data::mnist(folder_, data::Split::train, {.in_memory = in_memory});
      (void)data::text_file(words, {.in_memory = in_memory});
    };
    int failures = 0;
    for (std::uint64_t n = 1; n < 50; ++n) {
      const file_faults::Guard guard;
      file_faults::fail_read(n, file_faults::Fault::eio);
      const std::string line = error_of(load);
      EXPECT_EQ(ledger::total().live, live);
      if (line == "no error") break;
      EXPECT_HAS(line, folder_);
      ++failures;
    }
    EXPECT_GT(failures, 4);
    for (std::uint64_t n = 1; n < 50; ++n) {
      memory::FailTake fault(n);
      const std::string line = error_of(load);
      EXPECT_EQ(line != "no error", fault.fired()) << line;
      EXPECT_EQ(ledger::total().live, live);
      if (!fault.fired()) break;
    }
  }
}

TEST_F(StreamedTest, TwoThreadsCanWalkTheSameFile) {
  put_mnist(100);
  const Dataset data =
      data::mnist(folder_, data::Split::train, kStreamed).shuffle(1).batch(7).prefetch(1);
  const Dataset expected = data::mnist(folder_).shuffle(1).batch(7);
  std::thread other([&] { expect_same(expected, data); });
  expect_same(expected, data);
  other.join();
}

}  // namespace
}  // namespace ebb
