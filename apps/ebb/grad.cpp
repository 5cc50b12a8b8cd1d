#include <fmt/format.h>

#include "apps/ebb/asked_budget.hpp"
#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/exec/input_gradients.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/train/build/sizes.hpp"

namespace ebb::app {
namespace {

constexpr std::uint64_t kFiles = (128_KiB).bytes;  // headers, and what writing collects

struct Grad {
  std::string directory, data, out, memory;
  std::int64_t output = -1;

  // Tokens have no gradient, and a row has to be what the model reads.
  void check(const train::DataFacts& facts, const Spec& found) const {
    if (!is_float(facts.example.dtype))
      throw Error(
          fmt::format("{}: the model reads tokens, by which there is no gradient", directory));
    std::vector<std::int64_t> expected(facts.example.shape.begin(), facts.example.shape.end());
    const std::vector<std::int64_t> rows(found.shape.begin(), found.shape.end());
    if (found.dtype == DType::f32 && !rows.empty() &&
        std::equal(rows.begin() + 1, rows.end(), expected.begin(), expected.end()))
      return;
    throw Error(fmt::format("{}: it holds {}, expected f32 rows of {}", data, to_string(found),
                            to_string(facts.example)));
  }

  // One row, with what files are read and written by: compile() says what would do, to the byte.
  static void refuse_too_little(const RowFunction& fn, const Spec& all, AskedBudget& budget) {
    const Spec one = all.with_axis(0, 1);
    auto [row, room] = budget.reading(
        [&] {
          return std::pair(Tensor::zeros(one.shape, one.dtype),
                           std::make_unique<memory::Room>(3 * one.bytes() + kFiles));
        },
        AskedBudget::Counts::no);
    input_gradients(fn, row, {.memory = {}, .rows = 1});
  }

  void run() const {
    if (!out.ends_with(".npy"))
      throw Error(fmt::format("grad: --out is \"{}\", expected a name that ends in .npy", out));
    check_out("grad", data, out);
    AskedBudget budget(memory);
    train::Job job = open_run(budget, directory, "none");
    const train::DataFacts& facts = job.reading.facts;
    const Spec all =
        budget.reading([&] { return NpyReader(data).spec(); }, AskedBudget::Counts::no);
    check(facts, all);
    const std::int64_t outputs = train::sizes_of(job.config, facts).outputs;
    if (output >= outputs)
      throw Error(fmt::format(
          "grad: --output is {}, the model has {}", output,
          outputs == 1 ? "one output, 0" : fmt::format("outputs 0 to {}", outputs - 1)));
    const nn::Evaluation quiet;
    const RowFunction fn = [&](const Tensor& x) {
      const Tensor y = job.model.forward(Batch{{facts.input, x}});
      return output < 0 ? y : slice(y, -1, output, output + 1);
    };
    if (budget.bytes()) refuse_too_little(fn, all, budget);
    // As many rows at once as the budget has room for.
    for (std::int64_t rows = budget.bytes() ? 4096 : 0;; rows /= 2) {
      try {
        input_gradients(fn, data, out, {.memory = {}, .rows = rows});
        break;
      } catch (const BudgetTooSmall&) {
        if (rows <= 1) throw;
      } catch (const OutOfMemory&) {
        if (rows <= 1) throw;
      }
    }
    say(fmt::format(
        "wrote {}: gradients of {} by each input, {}\n", out,
        output < 0 ? std::string("the sum of the outputs") : fmt::format("output {}", output),
        to_string(NpyReader(out).spec())));
  }
};

}  // namespace

void add_grad(CLI::App& app) {
  auto grad = std::make_shared<Grad>();
  CLI::App* g = app.add_subcommand("grad",
                                   "gradients of a model's outputs by its inputs\n\n"
                                   "Outputs are what the model gives before any softmax. Any "
                                   "number of rows, taken in chunks that fit the budget; the "
                                   "result does not depend on that.");
  g->group(group::kUse);
  g->footer(
      "ebb grad runs/digits --data x.npy --out g.npy --memory 64MiB\n"
      "ebb grad runs/digits --data x.npy --out three.npy --output 3\n");
  add_run(*g, grad->directory);
  g->add_option("--data", grad->data, "inputs as the model reads them: .npy, f32")
      ->required()
      ->type_name(value::kFile);
  g->add_option("--out", grad->out, "gradients, .npy of the same shape")
      ->required()
      ->type_name(value::kFile);
  g->add_option("--output", grad->output,
                "of this output alone, such as a class; else of their sum")
      ->check(number_from(0))
      ->type_name(value::kNumber);
  add_memory(*g, grad->memory);
  add_quiet(*g);
  g->callback([grad] { grad->run(); });
}

}  // namespace ebb::app
