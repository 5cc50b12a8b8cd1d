#include "ebb/train/config/field-inl.hpp"

namespace ebb::train {
namespace {

using D = DataConfig;
using F = DataFormat;
constexpr auto kFromFile = [](const D& d) { return !is_generated(d.format); };
constexpr auto kTables = {F::csv, F::jsonl};
constexpr auto kWindows = [](const D& d) { return is_text(d) || d.format == F::sequences; };
constexpr Range kSize{.low = 1, .high = 1e9};

void add_files(Fields<D>& t) {
  t.add("format", &D::format, {}, "how the data is kept; digits and sequences are generated",
        "\"csv\"", "\"auto\"");
  t.add("path", &D::path, {}, "file, files or folder, relative to the config", "\"data/train.csv\"",
        "(to be said)")
      .only("a format that is read from files", kFromFile);
  t.add("task", &D::task, {}, "what is learnt", "\"regression\"",
        "(from the format and the target's type)");
  t.add("input", &D::input, {}, "the field or array that the model reads, where it is one",
        "\"text\"", "(the only one; of jsonl all, as a table)")
      .only("format", &D::format, {F::npz, F::safetensors, F::jsonl});
  t.add("target", &D::target, {}, "the column or array that it is to predict", "\"price\"",
        "(to be said; a language model has none)")
      .only("format", &D::format, {F::csv, F::npz, F::safetensors, F::jsonl});
  t.add("target_path", &D::target_path, {}, "the file of the targets, where it is another",
        "\"data/train-labels.npy\"", "(none)")
      .only("format", &D::format, {F::npy, F::idx});
  t.add("validation_path", &D::validation_path, {}, "data that is held out, in files of its own",
        "\"data/test.csv\"", "(none)")
      .only("a format that is read from files", kFromFile);
  t.add("validation_target_path", &D::validation_target_path, {}, "its targets",
        "\"data/test-labels.npy\"", "(none)")
      .only("format", &D::format, {F::npy, F::idx});
  t.add("validation_fraction", &D::validation_fraction, {.low = 0, .high = 1, .below = true},
        "part of the data that is held out; 0: none", "0.2")
      .only("no validation_path", [](const D& d) { return d.validation_path.empty(); });
  t.add("validation_seed", &D::validation_seed, {.low = 0}, "draws which rows are held out", "1")
      .only("no validation_path", [](const D& d) { return d.validation_path.empty(); });
}

void add_columns(Fields<D>& t) {
  t.add("ignore", &D::ignore, {}, "columns that are left out", "[\"id\", \"name\"]")
      .only("format", &D::format, kTables);
  t.add("categorical", &D::categorical, {}, "columns of numbers that are categories all the same",
        "[\"zip\"]")
      .only("format", &D::format, kTables);
  t.add("header", &D::header, {}, "the first line names the columns", "false")
      .only("format", &D::format, {F::csv});
  t.add("separator", &D::separator, {}, "between two values, one character", "\";\"")
      .only("format", &D::format, {F::csv});
  t.add("missing", &D::missing, {}, "what is done about a number that is not there", "\"mean\"")
      .only("format", &D::format, kTables);
  t.add("standardise", &D::standardise, {}, "numbers less their mean, by their deviation", "false")
      .only("format", &D::format, kTables);
  t.add("shape", &D::shape, kSize,
        "of one example, where the file has it otherwise: height, width, channels", "[28, 28, 1]");
  t.add("scale", &D::scale, {}, "what numbers are multiplied by", "0.01",
        "(bytes by 1/255, others by 1)")
      .only("format", &D::format, {F::npy, F::npz, F::safetensors, F::idx});
}

void add_text(Fields<D>& t) {
  t.add("window", &D::window, kSize, "tokens of one example", "128")
      .only("format = text, sequences, or jsonl without a target", kWindows);
  t.add("stride", &D::stride, kSize, "tokens from one window to the next", "32", "(the window)")
      .only("format = text, or jsonl without a target", is_text);
  t.add("vocabulary", &D::vocabulary, {},
        "tokens of a text: bytes (those that occur in it), or a file that ebb vocab made",
        "\"vocabulary.txt\"")
      .only("format = text, or jsonl without a target", is_text);
  t.add("buckets", &D::buckets, kSize, "lengths that lists are padded to", "[64, 128, 256]",
        "(the longest of a batch)")
      .only("format", &D::format, {F::jsonl});
}

void add_order(Fields<D>& t) {
  t.add("rows", &D::rows, kSize, "examples that are generated, held-out ones included", "8192")
      .only("format", &D::format, {F::digits, F::sequences});
  t.add("generate_seed", &D::generate_seed, {.low = 0}, "what is generated", "2")
      .only("format", &D::format, {F::digits, F::sequences});
  t.add("limit", &D::limit, {.low = 1}, "rows that are used at most, to try something out", "1000",
        "(all)");
  t.add("shuffle", &D::shuffle, {}, "a new order of the rows in each epoch", "false");
  t.add("seed", &D::seed, {.low = 0}, "draws that order", "7", "(train.seed)")
      .only("shuffle = true", [](const D& d) { return d.shuffle; });
  t.add("drop_last", &D::drop_last, {}, "leave out the last batch of an epoch if it is not full",
        "true");
  t.add("in_memory", &D::in_memory, {},
        "hold the data in memory; else batches are read from the file as they come (csv, jsonl, "
        "pictures and .gz: from "
        "a file of rows that is made of them once in the cache folder). auto: in memory, in a "
        "budget where it takes a quarter of that at most",
        "false")
      .only("a format that is read from files", kFromFile);
  t.add("prefetch", &D::prefetch, {.low = 0, .high = 64}, "batches that are made ahead", "4");
}

}  // namespace

template <>
const Fields<DataConfig>& fields() {
  static const Fields<DataConfig> table = [] {
    Fields<DataConfig> t("data");
    add_files(t);
    add_columns(t);
    add_text(t);
    add_order(t);
    return t;
  }();
  return table;
}

}  // namespace ebb::train
