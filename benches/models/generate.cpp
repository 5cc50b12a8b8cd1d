// Text from a small GPT and from one of 124 M parameters: tokens a second, and what a token costs early and
// late in a text, beside a pass over the whole text for every token.
//
//   bench_generate [--quick] [--json] [--only=small,gpt2]
#include <algorithm>
#include <chrono>
#include <vector>

#include "ebb/ebb.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// Seconds of a token around position `at` of a text.
double token_seconds(const nn::Gpt& gpt, std::int64_t at, int tokens) {
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(at), 5);
  nn::Generation text =
      nn::generate(gpt, prompt, {.tokens = tokens + 1, .temperature = 0.8, .top_k = 40, .seed = 1});
  text.next();  // reads the prompt
  std::vector<double> each;
  for (int i = 0; i < tokens; ++i) {
    const double start = seconds_now();
    text.next();
    each.push_back(seconds_now() - start);
  }
  return median(each);
}

double reread_seconds(const nn::Gpt& gpt, std::int64_t length) {
  const nn::Evaluation evaluation;
  const Tensor ids = Tensor::full({1, length}, 5, DType::i32);
  const double start = seconds_now();
  gpt.logits(slice(gpt.states(ids), 1, length - 1));
  return seconds_now() - start;
}

void run(zoo::Report& report, const char* name, const nn::GptOptions& options) {
  if (!report.wanted(name)) return;
  const nn::Gpt gpt(nn::Init(1), options);
  const int tokens = report.quick() ? 20 : 60;
  std::vector<double> early, late;
  for (int i = 0; i < (report.quick() ? 1 : 3); ++i) {
    early.push_back(token_seconds(gpt, 100, tokens));
    late.push_back(token_seconds(gpt, 900, tokens));
  }
  const double at_100 = median(early), at_900 = median(late), again = reread_seconds(gpt, 900);
  report.say(
      "%-6s %8.1f tokens a second at position 100, %8.1f at 900 (%.2f times the time; %.0f times "
      "with the text read again)\n",
      name, 1 / at_100, 1 / at_900, at_900 / at_100, again / at_100);
  report.metric(name, "tokens at position 100", 1 / at_100, "1/s");
  report.metric(name, "tokens at position 900", 1 / at_900, "1/s");
  report.compare(name, "token at position 900", at_900, "s", "reading the text again",
                 again / at_900);
}

}  // namespace

int main(int argc, char** argv) {
  zoo::Report report("generate", argc, argv);
  report.say("a token of text, %d threads\n", pool::threads());
  run(report, "small", {.vocabulary = 256, .context = 1024, .layers = 4, .width = 128, .heads = 4});
  run(report, "gpt2", nn::GptOptions::gpt2());
  return report.exit_code();
}
