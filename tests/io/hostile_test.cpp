// Files that were damaged, in every way there is for small ones: each is an Error or a value, and takes no
// memory to speak of. (The sanitizers see the rest: ./test asan io/)
#include <cmath>
#include <functional>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/process.hpp"
#include "ebb/io/archive/npz.hpp"
#include "ebb/io/array/idx.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/io/array/npy_header.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/io/image/image.hpp"
#include "ebb/io/text/csv.hpp"
#include "ebb/io/text/jsonl.hpp"
#include "ebb/io/text/jsonl_table.hpp"
#include "tests/io/archive/zip_bytes.hpp"
#include "tests/io/folder.hpp"
#include "tests/io/image/png_bytes.hpp"

namespace ebb {
namespace {

using test::error_of;
using Read = std::function<void(const std::string& path)>;

struct Format {
  const char* name;
  std::string content;
  Read read;
  bool whole = true;  // any part of it is refused
};

std::string npy_bytes() { return npy_preamble({{2, 3}, DType::f32}) + std::string(24, 'x'); }

std::string safetensors_bytes() {
  Safetensors file{{{"a.weight", {{2, 2}, DType::f32}}, {"b", {{3}, DType::u8}}}, {{"k", "v"}}};
  return safetensors_front(file) + std::string(19, 'x');
}

std::vector<Format> formats() {
  const Read npz = [](const std::string& path) {
    NpzReader reader(path);
    for (const std::string& name : reader.names()) (void)reader.load(name);
  };
  const Read image = [](const std::string& path) { (void)load_image(path); };
  const Read idx = [](const std::string& path) { (void)load_idx(path); };
  const std::string idx_bytes(
      "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
      "abcdef",
      18);
  const test::Png small{.width = 3, .height = 3, .colour = PNG_COLOR_TYPE_RGB};
  const test::Png palette{
      .width = 2, .colour = PNG_COLOR_TYPE_PALETTE, .palette = {{1, 2, 3}}, .clear = {7}};
  const Read csv = [](const std::string& path) {
    const auto s = io::read_csv_schema(path);
    (void)io::parse_csv_schema(io::to_string(s));
  };
  const Read jsonl = [](const std::string& path) {
    const auto s = io::read_jsonl_schema(path);
    io::read_jsonl_rows(path, {}, s, [](const auto&) {});
  };
  const Read objects = [](const std::string& path) {
    const auto s = io::read_jsonl_columns(std::span(&path, 1), {});
    io::CsvLayout layout;
    for (const io::CsvColumn& c : s.columns) {
      const bool number = c.kind == io::ColumnKind::number;
      layout.columns.push_back(
          {number ? io::CsvPlace::As::number : io::CsvPlace::As::id, layout.words++, 0, 1, true});
    }
    io::read_jsonl_table(path, {}, s, layout, [](auto) {});
  };
  const io::CsvSchema schema{{{"a", io::ColumnKind::number, 3, 0, 0.5, 2, -1, 7},
                              {"b\n", io::ColumnKind::category, 2, 1, 0, 0, 0, 0, {"x", "y,\""}}},
                             3};
  const io::JsonlSchema lines{{{"a", io::JsonKind::tokens, true, true, 4, 9},
                               {"b", io::JsonKind::label, false, false, 1, 0, {"x"}}},
                              3};
  return {
      {"npy", npy_bytes(), [](const std::string& path) { (void)load_npy(path); }},
      {"npz stored", test::zip_of({{"x.npy", npy_bytes()}, {"y.npy", npy_bytes()}}), npz},
      {"npz deflated", test::zip_of({{"x.npy", npy_bytes(), true}}), npz},
      {"npz zip64", test::zip_of({{"x.npy", npy_bytes(), true}}, true), npz},
      {"idx", idx_bytes, idx},
      {"idx gz", test::gzipped(idx_bytes), idx},
      {"safetensors", safetensors_bytes(),
       [](const std::string& path) {
         File file = File::open(path);
         (void)read_safetensors_front(file);
       }},
      {"png", test::png_of(small), image},
      {"png palette", test::png_of(palette), image},
      {"ppm", "P6 2 2 255\nabcdefghijkl", image},
      {"csv schema", io::to_string(schema),
       [](const std::string& path) { (void)io::parse_csv_schema(read_file(path)); }},
      {"jsonl schema", io::to_string(lines),
       [](const std::string& path) { (void)io::parse_jsonl_schema(read_file(path)); }},
      {"csv", "a,\"b\"\n1,\"x\ny\"\n2.5,\"z\"\"\"\n", csv, false},
      {"csv gz", test::gzipped("a,b\n1,x\n"), csv, false},
      {"jsonl",
       "{\"a\": [1, 2.5e0], \"b\": \"x\\u00e9\", \"c\": [3]}\n{\"a\": [3, 4], \"b\": \"y\", \"c\": "
       "[]}\n",
       jsonl, false},
      {"jsonl table",
       "{\"a\": 1, \"b\": \"x\\u00e9\", \"c\": true}\n{\"b\": null, \"a\": -2.5e1, \"d\": 7}\n",
       objects, false},
  };
}

class Hostile : public test::InFolder {
 protected:
  // What it took is given back, and was not much.
  std::string read(const Format& f, const std::string& content, const std::string& how) {
    const std::string file = put("a", content);
    const auto live = ledger::total().live;
    ledger::reset_peak();
    const std::string line = error_of([&] { f.read(file); });
    EXPECT_EQ(ledger::total().live, live) << f.name << ", " << how;
    EXPECT_LT(ledger::total().peak - live, 64u << 20) << f.name << ", " << how;
    EXPECT_EQ(line.find('\n'), std::string::npos) << f.name << ", " << how << ": " << line;
    return line;
  }
};

TEST_F(Hostile, TheFilesThemselvesAreGood) {
  for (const Format& f : formats()) EXPECT_EQ(read(f, f.content, "as it is"), "no error") << f.name;
}

TEST_F(Hostile, EveryTruncation) {
  for (const Format& f : formats())
    for (std::size_t n = 0; n < f.content.size(); ++n) {
      const std::string line = read(f, f.content.substr(0, n), "the first " + std::to_string(n));
      if (f.whole) {
        EXPECT_NE(line, "no error") << f.name << ", the first " << n;
      }
    }
}

TEST_F(Hostile, EveryFlippedBit) {
  for (const Format& f : formats())
    for (std::size_t i = 0; i < f.content.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        std::string content = f.content;
        content[i] = static_cast<char>(content[i] ^ 1 << bit);
        read(f, content, "byte " + std::to_string(i) + ", bit " + std::to_string(bit));
      }
}

TEST_F(Hostile, EveryByteZeroOrAllOnes) {
  for (const Format& f : formats())
    for (std::size_t i = 0; i < f.content.size(); ++i)
      for (const char value : {'\0', '\xff', '\x7f'}) {
        std::string content = f.content;
        content[i] = value;
        read(f, content, "byte " + std::to_string(i));
      }
}

TEST_F(Hostile, SomethingBehindTheEnd) {
  for (const Format& f : formats()) {
    if (std::string(f.name).starts_with("png"))
      continue;  // what is behind its end mark is not looked at
    const std::string line = read(f, f.content + "x", "with an x");
    EXPECT_NE(line, "no error") << f.name;
  }
}

// A line of a gibibyte, which takes no room on the disk, is refused when as much of it was read as may be one
// line: whatever it holds, and wherever it begins.
TEST_F(Hostile, ALineOfAGibibyteIsRefusedInLittleMemory) {
  const Read csv = [](const std::string& path) { (void)io::read_csv_schema(path); };
  const Read jsonl = [](const std::string& path) { (void)io::read_jsonl_schema(path); };
  const struct {
    const char* name;
    std::string begins;
    Read read;
  } kCases[] = {
      {"csv, its first line", "a,b", csv},
      {"csv, a later one", "a,b\n1,2\n3,", csv},
      {"csv, inside of quotes", "a,b\n1,\"", csv},
      {"jsonl, its first line", "{\"a\": [1, ", jsonl},
      {"jsonl, a later one", "{\"a\": \"x\"}\n{\"a\": \"", jsonl},
  };
  for (const auto& c : kCases) {
    put("a", c.begins);
    std::filesystem::resize_file(path("a"), std::uint64_t{1} << 30);
    const auto live = ledger::total().live;
    ledger::reset_peak();
    const std::uint64_t peak = process::peak_resident();
    const std::string line = error_of([&] { c.read(path("a")); });
    EXPECT_HAS(line, "cannot load \"" + path("a") + "\", line ") << c.name;
    EXPECT_HAS(line, "longer than 1 MiB") << c.name;
    EXPECT_LT(ledger::total().peak - live, 8u << 20) << c.name;
    EXPECT_LT(process::peak_resident() - peak, 16u << 20) << c.name;
  }
}

// Files that claim to be large, and are, of nothing: what they say is checked against each other, not believed.
TEST_F(Hostile, AGibibyteOfNothingIsRefusedInLittleMemory) {
  for (const Format& f : formats()) {
    put("a", f.content);
    std::filesystem::resize_file(path("a"), std::uint64_t{1} << 30);
    const auto live = ledger::total().live;
    ledger::reset_peak();
    const std::string line = error_of([&] { f.read(path("a")); });
    if (!std::string(f.name).starts_with("png")) {
      EXPECT_NE(line, "no error") << f.name;
    }
    EXPECT_LT(ledger::total().peak - live, 64u << 20) << f.name;
  }
}

// A few bytes that unpack to a thousand times as many.
TEST_F(Hostile, PackedRowsOfNothingTakeLittleMemory) {
  const auto live = ledger::total().live;
  ledger::reset_peak();
  put("a", test::gzipped("a,b\n" + std::string(20 << 20, '\n')));
  EXPECT_EQ(io::read_csv_schema(path("a")).rows, 0);
  put("a", test::gzipped(std::string("\0\0\x08\x01\xff\xff\xff\xff", 8) + std::string(100, 'x')));
  EXPECT_HAS(error_of([&] { load_idx(path("a")); }), "which cannot be packed in");
  EXPECT_LT(ledger::total().peak - live, 8u << 20);
}

}  // namespace
}  // namespace ebb
