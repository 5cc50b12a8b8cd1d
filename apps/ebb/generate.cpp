#include <fmt/core.h>

#include <iterator>

#include "apps/ebb/asked_budget.hpp"
#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/nn/generate.hpp"
#include "ebb/text/utf8_stream.hpp"

namespace ebb::app {
namespace {

constexpr std::size_t kLongestPass = 128;  // positions that a reader takes at once

struct Generate {
  std::string directory, prompt, memory;
  std::int64_t tokens = 200, top_k = 0;
  double temperature = 0.8, top_p = 1;
  std::uint64_t seed = 1;

  nn::GenerateOptions options() const {
    return {.tokens = tokens,
            .temperature = temperature,
            .top_k = top_k,
            .top_p = top_p,
            .seed = seed,
            .when_full = nn::WhenFull::slide};
  }

  // As much memory as the text will take, in a moment: the prompt, a token, and where the text is longer than what
  // the model reads at once, the longest pass of reading it again.
  void try_out(const train::Job& job, const Tensor& beginning) const {
    const auto given = beginning.data<std::int32_t>();
    std::vector<std::int32_t> ids(given.begin(), given.end());
    std::unique_ptr<nn::Reader> reader = job.model.reader();
    const auto context = static_cast<std::size_t>(reader->context());
    if (context > 0 && ids.size() + static_cast<std::size_t>(tokens) > context)
      ids.resize(std::max(ids.size(), std::min(context, kLongestPass)), ids[0]);
    nn::GenerateOptions few = options();
    few.tokens = std::min<std::int64_t>(2, tokens);
    nn::Generation text(std::move(reader), ids, few);
    while (text.next()) continue;
  }

  void run() const {
    AskedBudget budget(memory);
    train::Job job = open_run(budget, directory, "none");
    if (job.reading.facts.task != train::Task::language_model || !job.reading.tokenizer)
      throw Error(fmt::format("{}: the model is of another kind; generate is for language models",
                              directory));
    const data::Tokenizer& words = *job.reading.tokenizer;
    const std::string begin = prompt.empty() ? std::string("\n") : prompt;
    budget.must_hold([&] { try_out(job, words.encode(begin)); });
    const Tensor ids = words.encode(begin);
    nn::Generation text(job.model.reader(), ids.data<std::int32_t>(), options());
    print(prompt);
    text::Utf8Stream out;
    for (const std::int32_t id : text) print(out.put(words.piece(id)));
    print(out.finish() + "\n");
  }
};

}  // namespace

void add_generate(CLI::App& app) {
  auto g = std::make_shared<Generate>();
  CLI::App* c = app.add_subcommand(
      "generate",
      "text from a trained language model\n\n"
      "It is written as it comes. The same seed gives the same text, whatever the budget and the "
      "threads. What was "
      "read is kept, so that a token costs the same at the end as at the beginning.");
  c->group(group::kUse);
  c->footer(
      "ebb generate runs/gpt --prompt \"It was \" --tokens 300\n"
      "ebb generate runs/gpt --temperature 0.7 --top-k 40 --seed 2\n");
  add_run(*c, g->directory);
  c->add_option("--prompt", g->prompt, "what the text begins with")->type_name(value::kText);
  c->add_option("--tokens", g->tokens, "at most so many; 200")
      ->check(number_from(1))
      ->type_name(value::kNumber);
  c->add_option("--temperature", g->temperature, "0: always the likeliest; 0.8")
      ->check(number_from(0))
      ->type_name(value::kNumber);
  c->add_option("--top-k", g->top_k, "of the k likeliest; 0: all")
      ->check(number_from(0))
      ->type_name(value::kNumber);
  c->add_option("--top-p", g->top_p, "of those that have this share together; 1: all")
      ->check(number_from(0, 1))
      ->type_name(value::kNumber);
  c->add_option("--seed", g->seed, "another one, another text; 1")->type_name(value::kNumber);
  add_memory(*c, g->memory);
  c->callback([g] { g->run(); });
}

}  // namespace ebb::app
