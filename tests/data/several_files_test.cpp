// Several files are one data set; and what a plan is made with, of which nothing is kept.
#include <cstring>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/process.hpp"
#include "ebb/data/data.hpp"
#include "ebb/data/files/text_stream.hpp"
#include "ebb/io/array/npy.hpp"
#include "tests/io/folder.hpp"
#include "tests/io/image/png_bytes.hpp"

namespace ebb {
namespace {

using test::error_of;
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

class SeveralFilesTest : public test::InFolder {
 protected:
  data::StoreOptions stored(bool in_memory) const { return {in_memory, path("cache")}; }
};

TEST_F(SeveralFilesTest, Tables) {
  const std::string a = put("a.csv", "n,c\n1,u\n2,v\n"), b = put("b.csv", "n,c\n3,w\n4,u\n");
  const std::string whole = put("all.csv", "n,c\n1,u\n2,v\n3,w\n4,u\n");
  for (const bool in_memory : {true, false}) {
    const data::CsvOptions o{.target = "n", .store = stored(in_memory)};
    const auto parts = data::csv(std::vector{a, b}, o), one = data::csv(whole, o);
    EXPECT_EQ(parts.schema, one.schema);
    EXPECT_EQ(parts.rows.all()["x"].to_vector<float>(), one.rows.all()["x"].to_vector<float>());
    EXPECT_EQ(parts.rows.all()["y"].to_vector<float>(), (Floats{1, 2, 3, 4}));
  }
  EXPECT_HAS(error_of([&] {
               data::csv(std::vector{a, put("c.csv", "n,d\n1,u\n")}, {});
             }),
             "c.csv\": its column 2 is \"d\", and that of");
  EXPECT_HAS(error_of([&] {
               data::csv(std::vector{a, put("c.csv", "n\n1\n")}, {});
             }),
             "c.csv\": it has 1 columns, and");
  EXPECT_HAS(error_of([&] {
               data::csv(std::vector{a, put("c.csv", "n,c\n1\n")}, {});
             }),
             "c.csv\", line 2: it has 1 field;");
}

TEST_F(SeveralFilesTest, AChangedFileIsReadAnew) {
  const std::vector<std::string> files = {put("a.csv", "n\n1\n"), put("b.csv", "n\n2\n")};
  bool kept = true;
  data::CsvOptions o{.store = stored(false)};
  o.store.was_kept = &kept;
  data::csv(files, o);
  EXPECT_FALSE(kept);
  data::csv(files, o);
  EXPECT_TRUE(kept);
  put("b.csv", "n\n2\n3\n");
  EXPECT_EQ(data::csv(files, o).rows.all()["x"].to_vector<float>(), (Floats{1, 2, 3}));
}

TEST_F(SeveralFilesTest, Objects) {
  const std::vector<std::string> files = {put("a.jsonl", "{\"x\": [1], \"y\": \"b\"}\n"),
                                          put("b.jsonl", "{\"x\": [2, 3], \"y\": \"a\"}\n")};
  const auto [rows, schema] = data::jsonl(files, {});
  EXPECT_EQ(schema.rows, 2);
  const Batch all = rows.all();
  EXPECT_EQ(all["x"].to_vector<std::int32_t>(), (Ints{1, 0, 2, 3}));
  EXPECT_EQ(all["y"].to_vector<std::int32_t>(), (Ints{1, 0}));
}

TEST_F(SeveralFilesTest, Arrays) {
  std::vector<std::string> files;
  Floats wanted;
  for (int k = 0; k < 3; ++k) {
    Floats values;
    for (int i = 0; i < 2 * (k == 1 ? 0 : 5); ++i)
      values.push_back(static_cast<float>(100 * k + i));
    files.push_back(path("x" + std::to_string(k) + ".npy"));
    save_npy(files.back(), Tensor::from(values, {static_cast<std::int64_t>(values.size()) / 2, 2}));
    wanted.insert(wanted.end(), values.begin(), values.end());
  }
  const Dataset rows = Dataset::of({{"x", data::npy_rows(files)}});
  ASSERT_EQ(rows.size(), 10) << "one of the files is empty";
  EXPECT_EQ(rows.all()["x"].to_vector<float>(), wanted);
  const Dataset memory = Dataset::of({{"x", Tensor::from(wanted, {10, 2})}});
  auto a = rows.shuffle(3).batch(4).walk(2), b = memory.shuffle(3).batch(4).walk(2);
  while (const Batch* batch = a.next())
    EXPECT_EQ((*batch)["x"].to_vector<float>(), (*b.next())["x"].to_vector<float>());
  save_npy(path("other.npy"), Tensor::of({1, 2, 3}));
  EXPECT_HAS(error_of([&] {
               data::npy_rows(std::vector{files[0], path("other.npy")});
             }),
             "other.npy\": it holds f32(3), and");
  File::create(files[2]).write("x");  // while it is in use
  EXPECT_HAS(error_of([&] { rows.all(); }), "x2.npy\": it has changed since it was opened");
}

TEST_F(SeveralFilesTest, Texts) {
  const std::vector<std::string> files = {put("a.txt", "abcd"), put("b.txt", "efgha")};
  const std::string whole = put("all.txt", "abcdefgha");
  for (const bool in_memory : {true, false}) {
    const data::TextFileOptions o{.window = 3, .stride = 1, .in_memory = in_memory};
    const data::Text one = data::text_file(whole, o);
    const data::Text parts = data::text_windows(data::text_of_files(files), "a.txt", o);
    EXPECT_EQ(parts.vocabulary.characters(), one.vocabulary.characters());
    ASSERT_EQ(parts.windows.size(), 6);
    EXPECT_EQ(parts.windows.all()["target"].to_vector<std::int32_t>(),
              one.windows.all()["target"].to_vector<std::int32_t>());
  }
}

TEST_F(SeveralFilesTest, TextOfAField) {
  const std::vector<std::string> files = {
      put("a.jsonl", "{\"id\": 1, \"text\": \"h\\u00e9\\n\"}\n{\"text\": \"\", \"id\": 2}\n"),
      put("b.jsonl", "{\"text\": \"you\"}\n")};
  std::string all;
  data::text_of_field(files, "text")([&](std::string_view piece) { all += piece; });
  EXPECT_EQ(all, "h\xc3\xa9\n\n\nyou\n");
  EXPECT_EQ(data::shape_of(data::text_of_field(files, "text")).bytes, all.size());
  EXPECT_EQ(data::as_file(data::text_of_field(files, "text")).size(), all.size());
  const auto nothing = [](std::string_view) {};
  EXPECT_HAS(error_of([&] { data::text_of_field(files, "txt")(nothing); }),
             "a.jsonl\": it has no field \"txt\"; do you mean \"text\"? it has \"id\", \"text\"");
}

// As much is counted, and nothing of it is taken or written.
TEST_F(SeveralFilesTest, AShapeTakesNoMemory) {
  std::string table = "a,b\n";
  while (table.size() < (24u << 20)) table += "1,2\n";
  const std::string csv = put("a.csv", table), text = put("a.txt", table);
  for (const bool in_memory : {true, false}) {
    data::StoreOptions o = stored(in_memory);
    const auto bytes_of = [&](auto&& open) {
      const auto live = ledger::total().live;
      const auto rows = open();
      return ledger::total().live - live;
    };
    const std::uint64_t resident = process::resident();
    o.shape_only = true;
    const auto of_shape = bytes_of([&] { return data::csv(csv, {.store = o}); });
    const data::CsvData shape = data::csv(csv, {.store = o});
    const data::TextFileOptions window{.window = 8, .in_memory = in_memory, .shape_only = true};
    const data::Text words = data::text_file(text, window);
    EXPECT_LT(process::resident(), resident + (16u << 20)) << "of 24 MiB and more";
    EXPECT_FALSE(std::filesystem::exists(path("cache")));
    o.shape_only = false;
    EXPECT_EQ(of_shape, bytes_of([&] { return data::csv(csv, {.store = o}); }));
    const data::CsvData real = data::csv(csv, {.store = o});
    EXPECT_EQ(shape.schema, real.schema);
    EXPECT_EQ(shape.rows.batch(7).spec(), real.rows.batch(7).spec());
    EXPECT_EQ(shape.rows.batch(7).prefetch(2).walking_bytes(),
              real.rows.batch(7).prefetch(2).walking_bytes());
    const data::Text read = data::text_file(text, {.window = 8, .in_memory = in_memory});
    EXPECT_EQ(words.vocabulary.characters(), read.vocabulary.characters());
    EXPECT_EQ(words.windows.size(), read.windows.size());
  }
}

TEST_F(SeveralFilesTest, PicturesOfAShapeAreNotUnpacked) {
  std::filesystem::create_directories(path("p/a"));
  std::filesystem::create_directories(path("p/.hidden"));
  for (int i = 0; i < 300; ++i)
    put("p/a/" + std::to_string(1000 + i) + ".ppm",
        i < 260 ? std::string("P5 64 64 255\n") + std::string(4096, 'x') : "broken");
  const data::Images all = data::images(path("p"), {.store = {.shape_only = true}});
  EXPECT_EQ(all.rows.size(), 300);
  EXPECT_EQ(all.classes, (std::vector<std::string>{"a"}));
  EXPECT_HAS(error_of([&] { data::images(path("p")); }), "1260.ppm");
}

}  // namespace
}  // namespace ebb
