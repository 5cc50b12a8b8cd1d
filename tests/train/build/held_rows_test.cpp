// Rows in memory or in their files: as the budget decides, where the config leaves it to that.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/train/build/open_files.hpp"
#include "ebb/train/build/run_data.hpp"
#include "ebb/train/config/config.hpp"
#include "tests/io/folder.hpp"

namespace ebb::train {
namespace {

constexpr std::int64_t kRows = 3000;

struct Format {
  const char* name;
  const char* data;         // lines of [data]; paths are relative to the folder
  std::uint64_t bytes;      // of its rows
  bool one_by_one = false;  // rows that lie in their file as they are
};
void PrintTo(const Format& f, std::ostream* out) { *out << f.name; }

constexpr std::uint64_t kPixels = kRows * 16;
const Format kFormats[] = {
    {"csv", "path = 't.csv'\ntarget = 'y'\n", kRows * 4 * 4},
    {"table", "path = 't.jsonl'\ntarget = 'y'\n", kRows * 3 * 4},
    {"lists", "path = 'l.jsonl'\ntarget = 'y'\n", kRows*(12 + 4) + kRows * 4 * 4},
    {"text", "path = 't.txt'\nwindow = 16\n", kRows * 8},
    {"text_of_objects", "path = 's.jsonl'\nwindow = 16\n", kRows * 7},
    {"npy", "path = 'x.npy'\ntarget_path = 'y.npy'\n", kPixels + kRows * 4, true},
    {"two_npy", "path = ['x.npy', 'x.npy']\ntarget_path = ['y.npy', 'y.npy']\n",
     2 * (kPixels + kRows * 4), true},
    {"floats", "path = 'f.npy'\ntarget_path = 'y.npy'\n", kRows * 16 + kRows * 4, true},
    {"safetensors", "path = 'a.safetensors'\ninput = 'x'\ntarget = 'y'\n", kPixels + kRows * 4,
     true},
    {"idx", "path = 'x-idx'\nformat = 'idx'\ntarget_path = 'y-idx'\n", kPixels + kRows, true},
    {"idx_gz", "path = 'x-idx.gz'\nformat = 'idx'\ntarget_path = 'y-idx.gz'\n", kPixels + kRows},
};

class HeldRows : public test::InFolder, public testing::WithParamInterface<Format> {
 protected:
  HeldRows() {
    ::setenv("EBB_CACHE", path("cache").c_str(), 1);
    std::string csv = "a,b,c,y\n", table, lists, words, stories;
    std::string pixels(kPixels, '\0'), labels(kRows, '\0');
    std::vector<std::int32_t> y(kRows);
    std::vector<float> floats(kRows * 4);
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::string n = std::to_string(i % 10), m = std::to_string(i % 7);
      csv += n + "," + m + "," + std::to_string(i) + "," + m + ".5\n";
      table += "{\"a\": " + n + ", \"b\": " + std::to_string(i) + ", \"y\": " + m + ".5}\n";
      lists += "{\"x\": [" + std::string(i % 2 ? n : n + ", 2, 3, 4, 5, 6, 7") + "], \"y\": " + m +
               "}\n";
      words += "word " + m + " \n";
      stories += "{\"text\": \"story" + m + "\"}\n";
      y[i] = static_cast<std::int32_t>(i % 10);
      labels[i] = static_cast<char>(i % 10);
      for (std::size_t k = 0; k < 16; ++k) pixels[i * 16 + k] = static_cast<char>(i * k);
      for (std::size_t k = 0; k < 4; ++k) floats[i * 4 + k] = static_cast<float>(i * k);
    }
    put("t.csv", csv);
    put("t.jsonl", table);
    put("l.jsonl", lists);
    put("t.txt", words);
    put("s.jsonl", stories);
    Tensor x = Tensor::uninitialized({{kRows, 16}, DType::u8}, "pixels");
    std::memcpy(x.bytes(), pixels.data(), pixels.size());
    save_npy(path("x.npy"), x);
    save_npy(path("y.npy"), Tensor::from(y, {kRows}));
    save_npy(path("f.npy"), Tensor::from(floats, {kRows, 4}));
    const std::string front =
        fmt::format(R"({{"x":{{"dtype":"U8","shape":[{0},16],"data_offsets":[0,{1}]}},)"
                    R"("y":{{"dtype":"I32","shape":[{0}],"data_offsets":[{1},{2}]}}}})",
                    kRows, kPixels, kPixels + kRows * 4);
    std::string safe(8, '\0');
    const std::uint64_t length = front.size();
    std::memcpy(safe.data(), &length, sizeof length);
    safe += front + pixels;
    safe.append(reinterpret_cast<const char*>(y.data()), kRows * 4);
    put("a.safetensors", safe);
    using namespace std::string_literals;
    const std::string x_idx = "\0\0\x08\x02\0\0\x0b\xb8\0\0\0\x10"s + pixels,
                      y_idx = "\0\0\x08\x01\0\0\x0b\xb8"s + labels;
    put("x-idx", x_idx);
    put("y-idx", y_idx);
    put("x-idx.gz", test::gzipped(x_idx));
    put("y-idx.gz", test::gzipped(y_idx));
  }
  ~HeldRows() override { ::unsetenv("EBB_CACHE"); }

  // shuffle = false: batches may be views of rows in memory.
  Config config(const std::string& in_memory, bool shuffle) const {
    const bool text = std::string(GetParam().name).starts_with("text");
    return load_config(put(
        "c.toml", std::string("[model]\nkind = '") + (text ? "gpt" : "lstm") + "'\n[data]\n" +
                      GetParam().data + (in_memory.empty() ? "" : "in_memory = ") + in_memory +
                      "\nshuffle = " + (shuffle ? "true" : "false") + "\n[train]\nbatch = 50\n"));
  }
};

bool same(const Dataset& a, const Dataset& b) {
  auto x = a.walk(1), y = b.walk(1);
  for (;;) {
    const Batch *one = x.next(), *other = y.next();
    if (!one || !other) return !one && !other;
    for (std::size_t i = 0; i < one->values().size(); ++i) {
      const Tensor &s = one->values()[i], &t = other->values()[i];
      if (s.spec() != t.spec() || std::memcmp(s.raw(), t.raw(), s.spec().bytes()) != 0)
        return false;
    }
  }
}

// What one way says of the other is what the other is: bytes held, and bytes of dealing out batches.
TEST_P(HeldRows, EachWayKnowsTheOther) {
  for (const bool shuffle : {true, false}) {
    const auto before = ledger::total().live;
    const RunData memory = open_data(config("true", shuffle));
    const auto held = ledger::total().live - before;
    const RunData files = open_data(config("false", shuffle));
    EXPECT_EQ(memory.held.in_memory, GetParam().bytes);
    EXPECT_EQ(memory.held.in_files, 0u);
    EXPECT_EQ(files.held.in_files, GetParam().bytes);
    EXPECT_EQ(files.held.in_memory, 0u);
    EXPECT_EQ(files.held.charge_in_files, memory.held.charge_in_memory);
    EXPECT_GE(held, GetParam().bytes);
    EXPECT_LT(ledger::total().live - before - held, held / 2) << "what is held of rows in files";
    using data::Lying;
    const auto compare = [](const Dataset& m, const Dataset& f) {
      EXPECT_EQ(m.walking_bytes(Lying::in_files), f.walking_bytes());
      EXPECT_EQ(f.walking_bytes(Lying::in_memory), m.walking_bytes());
      EXPECT_EQ(m.walking_bytes(Lying::in_memory), m.walking_bytes());
      EXPECT_EQ(f.walking_bytes(Lying::in_files), f.walking_bytes());
      EXPECT_LT(m.walking_bytes(), f.walking_bytes());
      EXPECT_TRUE(same(m, f));
    };
    compare(memory.train, files.train);
    compare(*memory.validation, *files.validation);
  }
}

// As many bytes as there are rows hold them; with one byte less something is left in a file, alike in a plan.
TEST_P(HeldRows, TheRoomDecides) {
  const Config c = config("", true);
  for (const Opening opening : {Opening::rows, Opening::shape}) {
    const auto opened = [&](std::uint64_t most) {
      data::RowsHeld held{.most = most};
      const How how{opening, &held};
      const auto before = ledger::total().live;
      const OpenedRows rows = open_rows_of(c, {c.data.path, c.data.target_path}, nullptr, how);
      EXPECT_GE(ledger::total().live - before, held.in_memory);
      EXPECT_EQ(held.in_memory + held.in_files, GetParam().bytes);
      return held.in_files;
    };
    EXPECT_EQ(opened(GetParam().bytes), 0u);
    EXPECT_GT(opened(GetParam().bytes - 1), 0u);
    EXPECT_EQ(opened(0), GetParam().bytes);
    // Without a limit rows are in memory, but for those that lie in their file one by one.
    EXPECT_EQ(opened(data::RowsHeld::kAll), GetParam().one_by_one ? GetParam().bytes : 0u);
  }
}

// Rows that a run has left in the cache are not read again, unless they are to be held.
TEST_P(HeldRows, RowsOfTheCacheAreMeasured) {
  const Config c = config("", true);
  const auto opened = [&](std::uint64_t most) {
    data::RowsHeld held{.most = most};
    return open_rows_of(c, {c.data.path, c.data.target_path}, nullptr, {Opening::rows, &held})
                       .scanned > 0
               ? held.in_memory + 1
               : held.in_memory;
  };
  const std::uint64_t first = opened(GetParam().bytes - 1), again = opened(GetParam().bytes - 1);
  const std::string name = GetParam().name;
  EXPECT_EQ(first > again, name == "csv" || name == "table" || name == "lists");
  EXPECT_GE(opened(GetParam().bytes), GetParam().bytes);
}

TEST(HeldRowsOfABudget, AreAQuarterOfIt) {
  EXPECT_EQ(most_in_memory(0), data::RowsHeld::kAll);
  EXPECT_EQ(most_in_memory(400), 100u);
  EXPECT_EQ(most_in_memory(403), 100u);
}

INSTANTIATE_TEST_SUITE_P(Formats, HeldRows, testing::ValuesIn(kFormats),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ebb::train
