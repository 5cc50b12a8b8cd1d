#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/ebb/asked_budget.hpp"
#include "apps/ebb/asked_rows.hpp"
#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/ops/softmax.hpp"

namespace ebb::app {
namespace {

std::string in_quotes(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string all = "\"";
  for (const char c : text) all += c == '"' ? std::string("\"\"") : std::string(1, c);
  return all + "\"";
}

// A row for each example: classes by name with the share of the likeliest, or the numbers.
class CsvOutput {
 public:
  CsvOutput(const std::string& path, const train::Reading& reading, bool named)
      : reading_(reading), named_(named), file_(path) {}

  void add(const Tensor& y, const std::vector<std::string>& names) {
    const std::int64_t rows = y.dim(0);
    const auto width = static_cast<std::size_t>(rows > 0 ? y.size() / rows : 0);
    if (!begun_) begin(width);
    std::string text;
    for (std::int64_t r = 0; r < rows; ++r) {
      if (named_) text += in_quotes(names[static_cast<std::size_t>(r)]) + ",";
      text += row(y.data<float>().subspan(static_cast<std::size_t>(r) * width, width));
    }
    file_.file().write(text);
  }
  void commit() {
    if (!begun_) begin(1);
    file_.commit();
  }

 private:
  void begin(std::size_t width) {
    std::string head = named_ ? "file," : "";
    if (reading_.facts.classes > 0) {
      head += "class,share";
    } else if (width == 1) {
      head += "prediction";
    } else {
      for (std::size_t i = 0; i < width; ++i)
        head += fmt::format("{}prediction_{}", i ? "," : "", i);
    }
    file_.file().write(head + "\n");
    begun_ = true;
  }
  std::string row(std::span<const float> y) const {
    if (reading_.facts.classes == 0) {
      std::string text;
      for (const float v : y)
        text += fmt::format("{}{}", text.empty() ? "" : ",",
                            v * static_cast<float>(reading_.facts.target_scale));
      return text + "\n";
    }
    const auto best = static_cast<std::size_t>(std::max_element(y.begin(), y.end()) - y.begin());
    const std::string name =
        best < reading_.classes.size() ? reading_.classes[best] : std::to_string(best);
    return fmt::format("{},{:.6g}\n", in_quotes(name), y[best]);
  }

  const train::Reading& reading_;
  bool named_, begun_ = false;
  AtomicFile file_;
};

struct Predict {
  std::string directory, data, out, memory;

  void run() const {
    const bool csv = out.ends_with(".csv");
    if (!csv && !out.ends_with(".npy"))
      throw Error(
          fmt::format("predict: --out is \"{}\", expected a name that ends in .csv or .npy", out));
    check_out("predict", data, out);
    AskedBudget budget(memory);
    train::Job job = open_run(budget, directory, memory.empty() ? "none" : memory);
    const train::Reading& reading = job.reading;
    if (reading.facts.task == train::Task::language_model)
      throw Error(fmt::format(
          "{}: a language model continues texts: ebb generate; predict is for classes and numbers",
          directory));
    const nn::Evaluation quiet;
    const auto outputs = [&](const Batch& b) {
      const Tensor y = job.model.forward(b);
      return reading.facts.classes > 0 ? softmax(y) : y;
    };
    auto opened = budget.with_rows(job.config, [&] {
      AskedRows read = budget.reading([&] { return asked_rows(job, data); });
      auto compiled = budget.compiling(
          train::compile_options(job.config),
          [&](const CompileOptions& options) { return compile(read.spec, options, outputs); });
      return std::pair(std::move(read), std::move(compiled));
    });
    const AskedRows& rows = opened.first;
    auto& predict = opened.second;
    warn(rows.notes);
    std::optional<NpyWriter> npy;
    std::optional<CsvOutput> text;
    if (csv) text.emplace(out, reading, rows.named);
    rows.each([&](const Batch& b, const std::vector<std::string>& names) {
      const Tensor y = predict(b);
      if (csv) return text->add(y, names);
      if (!npy) npy.emplace(out, y.spec().with_axis(0, rows.count));
      npy->append(y);
    });
    if (!csv && !npy) throw Error(fmt::format("{}: there are no rows", data));
    if (npy) npy->commit();
    if (text) text->commit();
    say(fmt::format("wrote {}: {} rows\n", out, rows.count));
  }
};

}  // namespace

void add_predict(CLI::App& app) {
  auto predict = std::make_shared<Predict>();
  CLI::App* c = app.add_subcommand("predict",
                                   "what a trained model says of rows of a file, or of pictures\n\n"
                                   "Columns are read as those of the training data were: "
                                   "categories, means and class names are kept with the "
                                   "model. A .csv has a line a row: the likeliest class with its "
                                   "share, or numbers in the target's own unit; "
                                   "of pictures, their file's name first. An .npy holds the shares "
                                   "of all classes, or the numbers.");
  c->group(group::kUse);
  c->footer(
      "ebb predict runs/houses --data new.csv --out prices.csv\n"
      "ebb predict runs/flowers --data holiday/ --out flowers.csv   # pictures\n"
      "ebb predict runs/digits --data x.npy --out shares.npy --memory 48MiB\n");
  add_run(*c, predict->directory);
  c->add_option(
       "--data", predict->data,
       "a file like the one it was trained on, targets or not; a picture, or a folder of them")
      ->required()
      ->type_name(value::kFile);
  c->add_option("--out", predict->out, "what to write: .csv or .npy")
      ->required()
      ->type_name(value::kFile);
  add_memory(*c, predict->memory);
  add_quiet(*c);
  c->callback([predict] { predict->run(); });
}

}  // namespace ebb::app
