// Files whose rows have no one length: csv, jsonl, pictures, packed ones. In memory or in the cache folder,
// the batches are the same.
#include <cmath>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/data/data.hpp"
#include "ebb/io/archive/npz.hpp"
#include "ebb/io/array/npy_header.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "tests/data/walk_peak.hpp"
#include "tests/io/archive/zip_bytes.hpp"
#include "tests/io/folder.hpp"
#include "tests/io/image/png_bytes.hpp"
#include "tests/memory_refusals.hpp"

namespace ebb {
namespace {

using test::error_of;
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

bool same(const Batch& a, const Batch& b) {
  if (a.names() != b.names()) return false;
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    const Tensor &x = a.values()[i], &y = b.values()[i];
    if (x.spec() != y.spec() || std::memcmp(x.raw(), y.raw(), x.spec().bytes()) != 0) return false;
  }
  return true;
}

void expect_same(const Dataset& a, const Dataset& b) {
  EXPECT_EQ(a.spec(), b.spec());
  auto x = a.walk(2), y = b.walk(2);
  for (;;) {
    const Batch *one = x.next(), *other = y.next();
    ASSERT_EQ(one == nullptr, other == nullptr);
    if (!one) break;
    EXPECT_TRUE(same(*one, *other)) << to_string(x.position());
    EXPECT_EQ(x.position(), y.position());
  }
}

void expect_same_in_every_way(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(same(a.all(), b.all()));
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, a.size()})
    for (const int ahead : {0, 2}) {
      expect_same(a.batch(rows).prefetch(ahead), b.batch(rows).prefetch(ahead));
      expect_same(a.shuffle(3).batch(rows).prefetch(ahead),
                  b.shuffle(3).batch(rows).prefetch(ahead));
      expect_same(a.shard(1, 2).shuffle(3).batch(rows), b.shard(1, 2).shuffle(3).batch(rows));
    }
}

class StoreTest : public test::InFolder {
 protected:
  data::StoreOptions on_disk() const { return {false, path("cache")}; }
  std::size_t cached() const {
    std::size_t files = 0;
    if (!std::filesystem::exists(path("cache"))) return 0;
    for (const auto& entry : std::filesystem::directory_iterator(path("cache")))
      files += entry.is_regular_file();
    return files;
  }
};

std::string table(int rows) {
  std::string text = "size,colour,price\n";
  for (int i = 0; i < rows; ++i)
    text += std::to_string(i * 0.5) + "," + (i % 3 == 0 ? "red" : "blue") + "," +
            std::to_string(i % 10) + "\n";
  return text;
}

TEST_F(StoreTest, TablesOfNumbersAndCategories) {
  const std::string file = put("a.csv", "size,colour,price\n1,red,10\n2,blue,20\n3,red,30\n");
  const auto [rows, schema] = data::csv(file, {.target = "price"});
  const Batch all = rows.all();
  EXPECT_EQ(all.names(), (Names{"x", "y"}));
  EXPECT_EQ(all["x"].to_vector<float>(), (Floats{1, 0, 1, 2, 1, 0, 3, 0, 1})) << "blue, red";
  EXPECT_EQ(all["y"].to_vector<float>(), (Floats{10, 20, 30}));
  const auto ids =
      data::csv(file, {.target = "price", .classes = true, .standardise = true, .one_hot = false});
  const Batch other = ids.rows.all();
  EXPECT_EQ(other["colour"].to_vector<std::int32_t>(), (Ints{1, 0, 1}));
  EXPECT_EQ(other["y"].to_vector<std::int32_t>(), (Ints{0, 1, 2}));
  EXPECT_FLOAT_EQ(other["x"].data<float>()[0], -std::sqrt(1.5f));
  EXPECT_EQ(other["x"].data<float>()[1], 0);
  EXPECT_EQ(ids.schema.columns[2].categories, (std::vector<std::string>{"10", "20", "30"}));
  EXPECT_HAS(error_of([&] { data::csv(file, {.target = "cost"}); }), "no column \"cost\"");
}

TEST_F(StoreTest, WhatWasLearntOfATableServesALaterOne) {
  const auto first = data::csv(put("a.csv", table(30)), {.target = "colour", .standardise = true});
  const data::CsvOptions later{.target = "colour",
                               .standardise = true,
                               .schema = io::parse_csv_schema(to_string(first.schema))};
  expect_same_in_every_way(first.rows, data::csv(path("a.csv"), later).rows);
  const Batch one = data::csv(put("b.csv", "size,price\n0.5,1\n"), later).rows.all();
  EXPECT_EQ(one.names(), (Names{"x"})) << "no target to be told";
  EXPECT_EQ(one["x"].to_vector<float>(), first.rows.rows(1, 2).all()["x"].to_vector<float>());
  EXPECT_HAS(error_of([&] { data::csv(put("c.csv", "size,colour,price\n1,green,1\n"), later); }),
             "\"green\" is none of the 2 categories");
}

TEST_F(StoreTest, MissingNumbersAreWhatWasAskedFor) {
  const std::string file = put("a.csv", "a,b,y\n1,p,0\n,q,0\n3,,0\n");
  EXPECT_HAS(error_of([&] { data::csv(file, {.target = "y"}); }),
             "line 3: column \"a\": a value is missing");
  const Batch mean = data::csv(file, {.target = "y", .missing = data::Missing::mean}).rows.all();
  EXPECT_EQ(mean["x"].to_vector<float>(), (Floats{1, 1, 0, 2, 0, 1, 3, 0, 0}));
  const Batch zero = data::csv(file, {.target = "y", .missing = data::Missing::zero}).rows.all();
  EXPECT_EQ(zero["x"].data<float>()[3], 0);
}

TEST_F(StoreTest, TablesInTheCacheGiveTheBatchesOfMemory) {
  const std::string file = put("a.csv", table(100));
  const data::CsvOptions memory{.target = "price", .standardise = true};
  data::CsvOptions disk = memory;
  disk.store = on_disk();
  expect_same_in_every_way(data::csv(file, memory).rows, data::csv(file, disk).rows);
  EXPECT_EQ(cached(), 1u);
  EXPECT_EQ(std::filesystem::status(path("cache")).permissions(),
            std::filesystem::perms::owner_all);
  const auto again = data::csv(file, disk);
  EXPECT_EQ(again.schema, data::csv(file, memory).schema) << "found, not read";
  expect_same_in_every_way(data::csv(file, memory).rows, again.rows);
  put("a.csv", table(50));
  EXPECT_EQ(data::csv(file, disk).rows.size(), 50) << "a changed file is read anew";
  EXPECT_EQ(cached(), 1u) << "in place of the old one";
  disk.standardise = false;
  EXPECT_EQ(data::csv(file, disk).rows.size(), 50);
  EXPECT_EQ(cached(), 2u);
}

// What is found is opened: no byte of the source is read, however many rows there are.
TEST_F(StoreTest, WhatIsInTheCacheIsNotReadAgain) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "{\"x\": [" + std::to_string(i) + ", 1.5], \"y\": 1}\n";
  const std::string file = put("a.jsonl", text);
  (void)data::jsonl(file, {.store = on_disk()});
  const std::uint64_t before = file_faults::count(file_faults::Call::read);
  const auto found = data::jsonl(file, {.store = on_disk()});
  auto walk = found.rows.batch(10).walk(1, {.batch = 1999});
  EXPECT_EQ(walk.next()->values()[0].data<float>()[0], 19'990);
  EXPECT_LE(file_faults::count(file_faults::Call::read) - before, 4u);
}

TEST_F(StoreTest, ADamagedCacheIsMadeAnew) {
  const std::string file = put("a.csv", table(20));
  const data::CsvOptions disk{.target = "price", .store = on_disk()};
  const Dataset expected = data::csv(file, {.target = "price"}).rows;
  (void)data::csv(file, disk);
  std::string name;
  for (const auto& entry : std::filesystem::directory_iterator(path("cache")))
    name = entry.path().string();
  const std::string good = read_file(name);
  for (std::size_t i = 0; i < good.size();
       i += i < 600 ? 7 : 997) {  // all in front of the rows is checked
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    write_file(name, i % 2 ? bad : good.substr(0, i));
    const auto found = data::csv(file, disk);
    if (i < 4096 || i % 2 == 0) {
      EXPECT_TRUE(same(found.rows.all(), expected.all())) << i;
    }
  }
}

TEST_F(StoreTest, LinesOfJson) {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "{\"x\": [" + std::to_string(i) + ".25, -1], \"n\": " + std::to_string(i) +
            ", \"k\": \"" + (i % 2 ? "odd" : "even") + "\", \"ids\": [";
    for (int k = 0; k < i % 9; ++k) text += (k ? ", " : "") + std::to_string(i * 100 + k);
    text += "], \"t\": \"" + std::string(static_cast<std::size_t>(i % 5), 'a') + "\"}\n";
  }
  const std::string file = put("a.jsonl", text);
  const data::JsonlOptions memory{.format = {.kinds = {{"t", io::JsonKind::text}}}};
  data::JsonlOptions disk = memory;
  disk.store = on_disk();
  const auto read = data::jsonl(file, memory);
  const Batch all = read.rows.all();
  EXPECT_EQ(all["x"].spec(), (Spec{{60, 2}, DType::f32}));
  EXPECT_EQ(all["n"].data<std::int32_t>()[59], 59);
  EXPECT_EQ(all["k"].data<std::int32_t>()[3], 1);
  EXPECT_EQ(all["ids"].spec(), (Spec{{60, 8}, DType::i32}));
  EXPECT_EQ(all["t"].spec(), (Spec{{60, 4}, DType::u8}));
  EXPECT_EQ(all["ids"].data<std::int32_t>()[11 * 8 + 1], 1101);
  EXPECT_EQ(all["ids"].data<std::int32_t>()[11 * 8 + 2], 0) << "behind the end";
  const auto padded = [](const Dataset& d) {
    return d.pad("ids", {.buckets = {4, 8, 16}, .value = -1, .mask = "mask", .lengths = "lengths"});
  };
  for (int time = 0; time < 2; ++time) {  // made, then found
    const auto stored = data::jsonl(file, disk);
    EXPECT_EQ(stored.schema, read.schema);
    expect_same_in_every_way(read.rows, stored.rows);
    expect_same_in_every_way(padded(read.rows), padded(stored.rows));
    expect_same(padded(read.rows).batch_tokens(32).shuffle(1),
                padded(stored.rows).batch_tokens(32).shuffle(1));
  }
  const auto later = data::jsonl(file, {.format = memory.format, .schema = read.schema});
  expect_same_in_every_way(read.rows, later.rows);
}

TEST_F(StoreTest, LinesOfText) {
  const std::string file = put("a.txt", "one\ntwo words\r\n\nlast");
  const Dataset lines = data::text_lines(file), stored = data::text_lines(file, on_disk());
  EXPECT_EQ(lines.size(), 4);
  expect_same_in_every_way(lines, stored);
  expect_same_in_every_way(lines, data::text_lines(file, on_disk()));
  const Batch second = lines.rows(1, 2).all();
  const auto bytes = second["text"].data<std::uint8_t>();
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "two words");
  EXPECT_HAS(error_of([&] { data::text_lines(put("b.txt", "a\n\xff")); }),
             "line 2: byte 0xff is not UTF-8");
}

TEST_F(StoreTest, PicturesByClass) {
  std::filesystem::create_directories(path("p/cat"));
  std::filesystem::create_directories(path("p/ant"));
  put("p/cat/2.png", test::png_of({.width = 2, .rows = {200, 255}}));
  put("p/cat/10.ppm", "P5 2 1 255\nab");
  put("p/ant/1.pgm", std::string("P5 2 1 255\n\0\xff", 13));
  put("p/ant/notes.txt", "not a picture");
  const auto pictures = data::images(path("p"));
  EXPECT_EQ(pictures.classes, (std::vector<std::string>{"ant", "cat"}));
  const Batch all = pictures.rows.all();
  EXPECT_EQ(all["image"].spec(), (Spec{{3, 1, 2, 1}, DType::f32}));
  EXPECT_EQ(all["label"].to_vector<std::int32_t>(), (Ints{0, 1, 1}));
  EXPECT_EQ(all["image"].data<float>()[1], 1);
  EXPECT_FLOAT_EQ(all["image"].data<float>()[2], 'a' / 255.0f) << "\"10\" before \"2\"";
  for (int time = 0; time < 2; ++time)
    expect_same_in_every_way(pictures.rows, data::images(path("p"), {.store = on_disk()}).rows);
  EXPECT_EQ(data::images(path("p"), {.channels = 3}).rows.all()["image"].dim(3), 3);
  put("p/cat/3.png", test::png_of({.width = 3}));
  EXPECT_HAS(error_of([&] { data::images(path("p")); }), "cat/3.png\": it is u8(1, 3, 1)");
  put("p/cat/3.png", "nothing of the kind");
  EXPECT_HAS(error_of([&] { data::images(path("p")); }), "cat/3.png\": it is no picture");
  EXPECT_HAS(error_of([&] { data::images(path("p/cat")); }), "has no pictures in folders by class");
  EXPECT_HAS(error_of([&] { data::images(path("none")); }), "cannot read folder");
}

TEST_F(StoreTest, MembersOfArchives) {
  const Tensor x = Tensor::arange(60, DType::f32).viewed({20, 3});
  const Dataset memory = Dataset::of({{"x", x}});
  save_npz(path("a.npz"), {{"y", Tensor::scalar(1)}, {"x", x}});
  expect_same_in_every_way(memory, Dataset::of({{"x", data::npz_rows(path("a.npz"), "x")}}));
  EXPECT_HAS(error_of([&] { data::npz_rows(path("a.npz"), "y"); }),
             "it is a single number; expected rows");
  const std::string npy = npy_preamble(x.spec()) +
                          std::string(reinterpret_cast<const char*>(x.raw()), x.spec().bytes());
  put("b.npz", test::zip_of({{"x.npy", npy, true}}));
  expect_same_in_every_way(memory, Dataset::of({{"x", data::npz_rows(path("b.npz"), "x")}}));
  for (int time = 0; time < 2; ++time)
    expect_same_in_every_way(memory,
                             Dataset::of({{"x", data::npz_rows(path("b.npz"), "x", on_disk())}}));
  Safetensors front{{{"first", {{3}, DType::u8}}, {"x", x.spec()}}, {}};
  put("a.safetensors", safetensors_front(front) + "abc" +
                           std::string(reinterpret_cast<const char*>(x.raw()), x.spec().bytes()));
  expect_same_in_every_way(
      memory, Dataset::of({{"x", data::safetensors_rows(path("a.safetensors"), "x")}}));
  EXPECT_HAS(error_of([&] { data::safetensors_rows(path("a.safetensors"), "z"); }),
             "no tensor \"z\"; it has \"first\", \"x\"");
}

TEST_F(StoreTest, PackedDigitsAreAsPlainOnes) {
  std::string images("\0\0\x08\x03\0\0\0\x1e\0\0\0\2\0\0\0\2", 16),
      labels("\0\0\x08\x01\0\0\0\x1e", 8);
  for (int i = 0; i < 120; ++i) images += static_cast<char>(i);
  for (int i = 0; i < 30; ++i) labels += static_cast<char>(i % 10);
  std::filesystem::create_directories(path("m"));
  put("m/train-images-idx3-ubyte", images);
  put("m/train-labels-idx1-ubyte", labels);
  const Dataset plain = data::mnist(path("m"));
  std::filesystem::remove_all(path("m"));
  std::filesystem::create_directories(path("m"));
  put("m/train-images-idx3-ubyte.gz", test::gzipped(images));
  put("m/train-labels-idx1-ubyte.gz", test::gzipped(labels));
  expect_same_in_every_way(plain, data::mnist(path("m")));
  const data::MnistOptions streamed{.in_memory = false, .cache = path("cache")};
  for (int time = 0; time < 2; ++time)
    expect_same_in_every_way(plain, data::mnist(path("m"), data::Split::train, streamed));
}

// What a walk takes is never above what it said.
TEST_F(StoreTest, WalkingBytesStayTrue) {
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += "{\"x\": [1, 2.5, 3], \"ids\": [";
    for (int k = 0; k < i * 7 % 90; ++k) text += (k ? "," : "") + std::to_string(k);
    text += "]}\n";
  }
  const std::string file = put("a.jsonl", text);
  const Dataset memory = data::jsonl(file).rows,
                disk = data::jsonl(file, {.store = on_disk()}).rows;
  const auto padded = [](const Dataset& d) {
    return d.pad("ids", {.buckets = {8, 32, 90}, .mask = "mask", .lengths = "lengths"});
  };
  for (const Dataset& rows : {memory, disk, padded(memory), padded(disk), padded(disk).shard(0, 3)})
    for (const Dataset& data : {rows, rows.shuffle(2)})
      for (const Dataset& dealt :
           {data.batch(1), data.batch(100), data.batch_tokens(2000), data.batch_tokens(1)})
        for (const int ahead : {0, 3}) {
          const Dataset set = dealt.prefetch(ahead);
          const std::uint64_t said = set.walking_bytes();
          std::int64_t seen = 0;
          const std::uint64_t peak =
              test::walk_peak(set, [&](const Batch& b) { return b.rows() > 0 && ++seen > 60; });
          EXPECT_LE(peak, said) << to_string(set.walk(1).position()) << " ahead " << ahead;
          EXPECT_LE(said, 2 * peak + 40'000 + said * static_cast<unsigned>(ahead) / 2)
              << "and not much below";
        }
}

TEST_F(StoreTest, FaultsAreErrorsAndLeaveNothing) {
  const std::string file = put("a.csv", table(2000));
  const data::CsvOptions disk{.target = "price", .store = on_disk()};
  const auto live = ledger::total().live;
  for (const auto call : {0, 1}) {
    int failures = 0;
    for (std::uint64_t n = 1; n < 60; ++n) {
      std::filesystem::remove_all(path("cache"));
      const file_faults::Guard guard;
      if (call == 0)
        file_faults::fail_read(n, file_faults::Fault::eio);
      else
        file_faults::fail_write(n, file_faults::Fault::enospc);
      const std::string line = error_of([&] { (void)data::csv(file, disk); });
      EXPECT_EQ(ledger::total().live, live);
      if (line == "no error") break;
      EXPECT_EQ(cached(), 0u) << "nothing half done is left";
      ++failures;
    }
    EXPECT_GT(failures, 1);
  }
  test::memory_refusals(60, [&] {
    std::filesystem::remove_all(path("cache"));
    (void)data::csv(file, disk);
  });
}

}  // namespace
}  // namespace ebb
