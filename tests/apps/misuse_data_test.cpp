// Data that is not as it should be, and files that lie about themselves.
#include <zlib.h>

#include "tests/apps/misuse.hpp"
#include "tests/io/archive/zip_bytes.hpp"
#include "tests/io/image/png_bytes.hpp"

namespace ebb::test {
namespace {

class MisusedData : public MisuseTable {};

constexpr char kLabels[] = "target_path = \"y.npy\"\nvalidation_fraction = 0\n";
constexpr char kTarget[] = "target = \"y\"\nvalidation_fraction = 0\n";

// Files of a run that is begun; `text` says what is wrong with the first of them.
Misuse trained(const std::string& name, const std::string& file, const std::string& content,
               const std::string& text, const std::string& more = kTarget) {
  return {name, {{"c.toml", array_config(file, more)}, {file, content}}, {"train", "c.toml"}, text};
}
Misuse csv(const std::string& name, const std::string& content, const std::string& text) {
  return trained(name, "t.csv", content, "t.csv\"" + text);
}
Misuse jsonl(const std::string& name, const std::string& content, const std::string& text) {
  return trained(name, "t.jsonl", content, "t.jsonl\"" + text);
}
std::string labels(std::int32_t bad) { return npy({4}, std::vector<std::int32_t>{0, 1, bad, 1}); }
std::string rows() { return npy({4, 2}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}); }
Misuse array(const std::string& name, const std::string& x, const std::string& y,
             const std::string& text) {
  Misuse m = trained(name, "x.npy", x, text, kLabels);
  m.files.push_back({"y.npy", y});
  return m;
}

std::vector<Misuse> of_tables() {
  const std::string many(4 << 20, 'x');
  return {
      {"missing_csv",
       {{"c.toml", array_config("t.csv", kTarget)}},
       {"train", "c.toml"},
       "t.csv\": No such file or directory"},
      {"folder_as_csv",
       {{"c.toml", array_config("t.csv", kTarget)}, {"t.csv/a", ""}},
       {"train", "c.toml"},
       "t.csv\" does not tell it (it is a folder without files of a known kind"},
      csv("empty_csv", "", ": it holds no record; expected a table"),
      trained("only_a_header", "t.csv", "x,y\n", "t.csv: there are no rows"),
      csv("ragged_csv", "x,y\n1,2\n3\n", ", line 3: it has 1 field; expected 2"),
      csv("wide_csv", "x,y\n1,2\n3,4,5\n", ", line 3: it has more than the 2 fields"),
      // Lines are counted as an editor counts them, also behind a newline in quotes.
      csv("behind_quoted_newlines", "x,y\n\"a\nb\n\nc\",2\n3\n", ", line 6: it has 1 field"),
      csv("nul_in_csv", std::string("x,y\n1,2\n\0,4\n", 12), ", line 3: it holds a NUL byte"),
      csv("no_utf8_in_csv", "x,y\n1,2\n\xff,4\n", ", line 3: byte 0xff is not UTF-8"),
      csv("open_quote", "x,y\n1,\"2\n3,4\n", ", line 2: column \"y\": a quote that is never"),
      csv("behind_a_quote", "x,y\n1,\"2\"3\n", ", line 2: column \"y\": text behind a closing"),
      csv("large_number_in_csv", "x,y\n1,2\n1e999,4\n",
          ", line 3: column \"x\": a number beyond what f32 holds"),
      csv("long_line", "x,y\n" + many + ",1\n" + many + ",1\n",
          ", line 2: it is longer than 1 MiB"),
      trained("target_alone", "t.csv", "y\n1\n2\n",
              "t.csv: there is no column beside \"y\", the target, to predict it from"),
      csv("same_name_twice", "y,y\n1,2\n",
          ", line 1: two columns are called \"y\"; give each a name of its own, or set data.header "
          "= false"),
      csv("umlauts", "größe,pr\xc3\xa4is\n1,2\n3,4\n",
          ": it has no column \"y\"; it has \"größe\", \"präis\""),
      csv("missing_value", "x,y\n1,2\n,4\n5,6\n", ", line 3: column \"x\": a value is missing"),
      csv("no_such_target", "x,yy\n1,2\n3,4\n",
          ": it has no column \"y\"; do you mean \"yy\"? it has \"x\", \"yy\""),
      {"no_such_column",
       {{"c.toml", array_config("t.csv", kTarget)}, {"t.csv", "area,y\n1,2\n3,4\n"}},
       {"train", "c.toml", "--set", "data.ignore=aera"},
       "t.csv\": it has no column \"aera\"; do you mean \"area\"? it has \"area\", \"y\""},
      {"empty_text",
       {{"c.toml", "[model]\nkind = \"lstm\"\n[data]\npath = \"t.txt\"\n"}, {"t.txt", ""}},
       {"train", "c.toml"},
       "t.txt\": 0 characters are too few for a window"},
      jsonl("empty_jsonl", "", ": it holds no object"),
      jsonl("no_json", "{\"x\": 1, \"y\": 2}\n{\"x\": }\n", ", line 2: it is no JSON object"),
      jsonl("deep_jsonl", "{\"x\": " + std::string(5000, '[') + "\n",
            ", line 1: it is no JSON object"),
      jsonl("no_utf8_in_jsonl", "{\"x\": 1, \"y\": 2}\n{\"x\": \"\xff\", \"y\": 2}\n",
            ", line 2: it is no JSON object (The input is not valid UTF-8)"),
      jsonl("large_number_in_jsonl", "{\"x\": 1, \"y\": 2}\n{\"x\": 1e999, \"y\": 2}\n",
            ", line 2: field \"x\": a number beyond what f32 holds"),
      jsonl("field_twice", "{\"x\": 1, \"x\": 2, \"y\": 2}\n", ": field \"x\" is named twice"),
      jsonl("field_missing", "{\"x\": 1, \"y\": 2}\n{\"x\": 1}\n",
            ", line 2: field \"y\": a value is missing"),
      trained("no_such_field", "t.jsonl", "{\"area\": 1, \"price\": 2}\n",
              "t.jsonl\": it has no field \"prcie\"; do you mean \"price\"? it has \"area\", "
              "\"price\"",
              "target = \"prcie\"\n"),
      {"jsonl_without_target",
       {{"c.toml", array_config("t.jsonl", "task = \"regression\"\n")}},
       {"train", "c.toml"},
       "data.target is missing: the field that is to be predicted"},
      {"jsonl_of_two_texts",
       {{"c.toml", "[model]\nkind = \"lstm\"\n[data]\npath = \"t.jsonl\"\n"},
        {"t.jsonl", "{\"title\": \"a\", \"body\": \"b\"}\n"}},
       {"train", "c.toml"},
       "among them \"title\" and \"body\": say data.input"},
      trained("lists_among_columns", "t.jsonl", "{\"x\": [1, 2], \"n\": 1, \"y\": 2}\n",
              "say data.input = \"x\""),
      {"vocabulary_of_characters",
       {{"c.toml",
         "[model]\nkind = \"lstm\"\n[data]\npath = \"t.txt\"\nvocabulary = \"characters\"\n"},
        {"t.txt", "abc"}},
       {"train", "c.toml"},
       "characters\", and there is no such file; expected \"bytes\", or a file that ebb vocab "
       "made"},
  };
}

// Several files, and folders of them.
std::vector<Misuse> of_several_files() {
  return {
      {"several_npz",
       {{"c.toml", small_config("", "path = [\"a.npz\", \"b.npz\"]\n")}},
       {"train", "c.toml"},
       "c.toml:5:8: data.path names 2 files, and npz takes one; several are taken of csv, jsonl"},
      {"files_of_two_kinds",
       {{"c.toml", small_config("", "path = [\"a.csv\", \"b.jsonl\"]\ntarget = \"y\"\n")}},
       {"train", "c.toml"},
       "b.jsonl\", which is jsonl; expected files of one kind"},
      {"folder_of_two_kinds",
       {{"c.toml", array_config("d", kTarget)}, {"d/a.csv", "x"}, {"d/b.npy", "x"}},
       {"train", "c.toml"},
       "(it is a folder of csv and npy files)"},
      {"folder_of_idx",
       {{"c.toml", array_config("d", "")}, {"d/a-ubyte", "x"}},
       {"train", "c.toml"},
       "(it is a folder of idx files: name one of them)"},
      {"folder_without_such_files",
       {{"c.toml", array_config("d", "format = \"csv\"\ntarget = \"y\"\n")}, {"d/a.txt", "x"}},
       {"train", "c.toml"},
       "d: the folder holds no csv files; expected names that end in .csv, .csv.gz, .tsv"},
      {"pictures_without_classes",
       {{"c.toml", array_config("d", "")}, {"d/1.png", "x"}},
       {"train", "c.toml"},
       "its pictures are not in folders by class"},
      {"no_such_array",
       {{"c.toml", array_config("x.npz", "target = \"lable\"\ninput = \"x\"\n")},
        {"x.npz", zip_of({{"x.npy", rows()}, {"label.npy", labels(1)}})}},
       {"train", "c.toml"},
       "x.npz\": it has no array \"lable\"; do you mean \"label\"?"},
  };
}

std::vector<Misuse> of_arrays() {
  Misuse above = array("label_above", rows(), labels(7), "model.classes is 2, and the data has 8");
  above.arguments = {"train", "c.toml", "--set", "model.classes=2"};
  return {
      array("label_below_0", rows(), labels(-1), "y.npy: label -1 in row 2; expected 0 to"),
      above,
      array("other_length", rows(), npy({3}, std::vector<std::int32_t>{0, 1, 0}),
            "y.npy: the targets are i32(3), 3 rows, and the inputs of "),
      array("label_of_a_milliard", rows(), labels(1000000000),
            "y.npy: label 1000000000 in row 2; expected 0 to the number of classes - 1"),
      trained("targets_of_validation", "x.npy", rows(),
              "data.validation_target_path is missing: the targets of data.validation_path",
              "target_path = \"y.npy\"\nvalidation_path = \"x.npy\"\n"),
      array("no_rows", npy({0, 2}, std::vector<float>{}), npy({0}, std::vector<std::int32_t>{}),
            "x.npy: f32(0, 2) has no rows"),
      {"empty_folder",
       {{"c.toml", array_config("p", "format = \"images\"\n")}, {"p/readme", "x"}},
       {"train", "c.toml"},
       "/p\" has no pictures in folders by class"},
  };
}

std::string safetensors(const std::string& header, std::size_t data, std::uint64_t claimed = 0) {
  return little(claimed ? claimed : header.size(), 8) + header + std::string(data, 'a');
}
// Two tensors, of 8 bytes of data each, that lie there.
std::string two_tensors(const std::string& first, const std::string& second) {
  return R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[)" + first +
         R"(]},"y":{"dtype":"F32","shape":[2],"data_offsets":[)" + second + "]}}";
}
std::string twice(const std::string& text, const std::string& from, const std::string& to) {
  std::string changed = text;
  return changed.replace(changed.find(from), from.size(), to);
}

struct HostileFile {
  std::string name, file, content, text;  // behind the name of the file
};

std::vector<HostileFile> hostile() {
  std::string huge = npy({1}, std::vector<float>{1});
  huge.replace(huge.find("(1,"), 22, "(99999999999,99999999)");
  const std::string again = twice(rows(), "'fortran_order': False", "'descr': '<f4'       ,");
  const std::string objects = twice(rows(), "<f4", "|O8");
  const std::string zeros(1 << 20, '\0'), member = npy({1 << 18, 1}, std::vector<float>(1 << 18));
  const std::string idx(
      "\0\0\x08\x02\0\0\0\x04\0\0\0\x02"
      "abcdefgh",
      20);
  const std::string gz = gzipped(idx);
  using S = std::string;
  return {
      {"npy_cut", "x.npy", rows().substr(0, 90), "its header claims 118 bytes, and 80 are left"},
      {"npy_short", "x.npy", rows().substr(0, 156), "needs a file of 160 bytes, and this one has "},
      {"npy_longer", "x.npy", rows() + "x", "has 161; the file is followed by something else"},
      {"npy_huge", "x.npy", huge, "has more elements than can be addressed"},
      {"npy_not", "x.npy", "hello", "5 bytes are too few for an .npy file"},
      {"npy_key_twice", "x.npy", again, "the header names \"descr\" twice"},
      {"npy_objects", "x.npy", objects, "\"|O8\" is an object dtype (pickled)"},
      {"npz_not", "x.npz", "PK\x03\x04 nothing", "12 bytes are too few for a zip archive"},
      {"npz_cut", "x.npz", zip_of({{"x.npy", rows()}}).substr(0, 150), "no zip directory at its"},
      {"npz_twice", "x.npz", zip_of({{"x.npy", rows()}, {"x.npy", rows()}}),
       "it has two members \"x.npy\""},
      {"npz_bomb", "x.npz", zip_of({{"x.npy", member, true, 16}, {"y.npy", labels(1)}}),
       "its header claims 118 bytes"},
      {"safetensors_long_header", "x.safetensors", safetensors("{}", 0, ~0ull),
       "its header claims 18446744073709551615 bytes, and 2 are left"},
      {"safetensors_overlap", "x.safetensors", safetensors(two_tensors("0,8", "4,12"), 12),
       "tensor \"y\" begins at byte 4 of the data, where 8 was expected"},
      {"safetensors_hole", "x.safetensors", safetensors(two_tensors("0,8", "12,20"), 20),
       "tensor \"y\" begins at byte 12 of the data, where 8 was expected"},
      {"safetensors_beyond", "x.safetensors", safetensors(two_tensors("0,8", "8,999999999999"), 16),
       "bytes 8 to 999999999999 of 16"},
      {"safetensors_backward", "x.safetensors", safetensors(two_tensors("0,8", "16,8"), 16),
       "bytes 16 to 8 of 16"},
      {"safetensors_twice", "x.safetensors",
       safetensors(twice(two_tensors("0,8", "8,16"), "\"y\"", "\"x\""), 16),
       "its header names \"x\" twice"},
      {"safetensors_deep", "x.safetensors", safetensors(S(200000, '['), 0),
       "its header is wrong at byte 0"},
      {"idx_cut", "x-ubyte", S("\0\0\x08\x03\0\0\x10\0\0\0\x10\0", 12),
       "it ends inside its header"},
      {"idx_huge", "x-ubyte", S("\0\0\x08\x03", 4) + S(12, '\xff') + "abc",
       "has more elements than can be addressed"},
      {"idx_bad_magic", "x-ubyte", "abcdefgh", "it does not start as an idx file does"},
      {"gz_bomb", "x-ubyte.gz", gzipped(idx + zeros), "is followed by something else"},
      {"gz_cut", "x-ubyte.gz", gz.substr(0, gz.size() - 9), "packed data ends early, 20 bytes in"},
      {"gz_sum", "x-ubyte.gz", gz.substr(0, gz.size() - 8) + S(8, '\0'), "packed data is damaged"},
  };
}

// Each is trained on, and looked at.
std::vector<Misuse> of_hostile_files() {
  std::vector<Misuse> all;
  for (const HostileFile& h : hostile()) {
    const bool npy_file = h.file == "x.npy", idx = h.file.starts_with("x-ubyte");
    Misuse train = trained(h.name, h.file, h.content, h.text,
                           npy_file ? kLabels
                           : idx    ? "target_path = \"y-ubyte\"\nvalidation_fraction = 0\n"
                                    : kTarget);
    train.text = h.text;
    train.files.push_back({"y.npy", labels(1)});
    train.files.push_back({"y-ubyte", std::string("\0\0\x08\x01\0\0\0\x04\0\1\0\1", 12)});
    all.push_back(train);
    if (h.name == "gz_bomb" || h.name == "gz_cut" || h.name == "gz_sum")
      continue;  // only the front of a packed file is looked at
    all.push_back({"look_" + h.name, {{h.file, h.content}}, {"inspect", h.file}, h.text});
  }
  return all;
}

std::vector<Misuse> of_pictures() {
  const Png good{.width = 4, .height = 4};
  const std::string whole = png_of(good);
  const auto pictures = [&](const std::string& name, const std::string& second,
                            const std::string& text) {
    return Misuse{name,
                  {{"c.toml", array_config("p", "format = \"images\"\n")},
                   {"p/a/1.png", whole},
                   {"p/b/2.png", second}},
                  {"train", "c.toml"},
                  "/p/b/2.png\"" + text};
  };
  // A wide one whose header says that it is large, too, with the checksum that belongs to it.
  std::string claims = whole, header = claims.substr(12, 17);
  header.replace(4, 8, std::string("\0\0\x75\x30\0\0\x75\x30", 8));
  const auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(header.data()), 17);
  claims.replace(12, 17, header);
  for (int i = 0; i < 4; ++i) claims[29 + i] = static_cast<char>(sum >> (24 - 8 * i));
  return {
      pictures("png_cut", whole.substr(0, whole.size() - 30),
               ": it is no whole PNG picture (it ends early)"),
      pictures("png_other_size", png_of({.width = 5, .height = 4}),
               ": it is u8(4, 5, 1) (height, width, channels), and the pictures before it are"),
      pictures("png_bomb", claims, ": a picture of 30000 by 30000; at most 67108864 pixels"),
      pictures("png_not", "hello", ": it is no picture that Ebb reads"),
  };
}

std::vector<Misuse> of_checkpoints() {
  constexpr char kEnd[] = "manifest.json\": it does not end with its checksum";
  return {
      {"look_checkpoint",
       {{"k/manifest.json", "{\"format\": 1}"}, {"k/model.safetensors", ""}},
       {"inspect", "k"},
       kEnd},
      {"predict_checkpoint",
       {{"k/manifest.json", std::string(100000, '[')}},
       {"predict", "k", "--data", "x.npy", "--out", "y.npy"},
       kEnd},
  };
}

std::vector<Misuse> all_of_them() {
  std::vector<Misuse> all;
  for (const auto& some : {of_tables(), of_several_files(), of_arrays(), of_hostile_files(),
                           of_pictures(), of_checkpoints()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

TEST_P(MisusedData, isOneClearLine) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Of, MisusedData, testing::ValuesIn(all_of_them()),
                         [](const auto& info) { return info.param.name; });

TEST_F(Commands, ALineOfAGibibyteIsRefused) {
  put("c.toml", array_config("t.csv", kTarget));
  put("t.csv", "x,y\n1,2\n3,");
  std::filesystem::resize_file(path("t.csv"), std::uint64_t{1} << 30);  // takes no room
  const std::vector<std::string> before = files();
  expect_line(ebb({"train", "c.toml", "--memory", "64MiB"}), 2,
              "t.csv\", line 3: it is longer than 1 MiB");
  EXPECT_EQ(files(), before);
}

// A newline in quotes is a part of its field.
TEST_F(Commands, QuotedNewlinesAreRead) {
  put("c.toml", array_config("t.csv", kTarget));
  put("t.csv", "\"a\nname\",y\n\"one\ntwo\",1\n\"three\",2\n\"one\ntwo\",3\n");
  const Ran ran = ebb({"train", "c.toml", "-q", "--out", "o"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_HAS(content("o/model/reading.json"), "\\\"one\\ntwo\\\"\\n\\\"three");
}

}  // namespace
}  // namespace ebb::test
