// Byte-pair vocabularies on one core: megabytes of text a second in training, encoding and decoding, and the
// memory that training takes. The text is a file of your own, or made up of words that occur as those of a
// language do, the n-th most frequent one 1/n as often as the first.
//
//   bench_vocabulary [--quick] [--json] [--file=TEXT]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/ebb.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string made_up_word(std::uint64_t number) {
  static constexpr const char* kParts[] = {"ba", "th",   "in", "er", "o", "sta", "ing", "re",
                                           "co", "ment", "a",  "le", "u", "pre", "ti",  "on"};
  std::string word;
  for (std::uint64_t rest = mix(number) % 65536 + 16; rest > 0; rest /= 16)
    word += kParts[rest % 16];
  return word;
}

std::string made_up_text(std::size_t bytes) {
  constexpr double kWords = 200000;
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    const double u = static_cast<double>(draw({1, 0}, 0, i)) * 0x1p-32;
    text += made_up_word(static_cast<std::uint64_t>(std::pow(kWords, u)));
    text += i % 12 == 11 ? ".\n" : i % 7 == 6 ? ", " : " ";
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  zoo::Report report("vocabulary", argc, argv);
  std::string path, text;
  for (int i = 1; i < argc; ++i)
    if (!std::strncmp(argv[i], "--file=", 7)) path = argv[i] + 7;
  const bool own = path.empty();
  if (own) {
    path = temporary_folder() + "/ebb_bench_vocabulary.txt";
    write_file(path, made_up_text(report.quick() ? 10'000'000 : 50'000'000));
  }
  text = read_file(path, ByteSize{4'000'000'000});
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  pool::set_threads(1);

  ledger::reset_peak();
  double start = seconds_now();
  const text::Bpe bpe = text::train_bpe_file(path, {.vocabulary = 4096});
  const double train = megabytes / (seconds_now() - start);
  const double peak = zoo::mib(ledger::total().peak);

  std::vector<std::int32_t> ids(text.size());
  start = seconds_now();
  ids.resize(bpe.encode_into(text, ids.data()));
  const double encode = megabytes / (seconds_now() - start);
  start = seconds_now();
  const bool same = bpe.decode(ids) == text;
  const double decode = megabytes / (seconds_now() - start);
  const double each = static_cast<double>(text.size()) / static_cast<double>(ids.size());

  report.say("%.0f MB of text, %d tokens, %.2f bytes a token\n", megabytes, bpe.size(), each);
  report.say("  training %7.1f MB/s in %.1f MiB\n  encoding %7.1f MB/s\n  decoding %7.1f MB/s\n",
             train, peak, encode, decode);
  report.metric("4096 tokens", "training", train, "MB/s");
  report.metric("4096 tokens", "memory of training", peak, "MiB");
  report.metric("4096 tokens", "encoding", encode, "MB/s");
  report.metric("4096 tokens", "decoding", decode, "MB/s");
  report.check("the text comes back", same, zoo::formatted("%zu bytes", text.size()));
  if (own) std::remove(path.c_str());
  return report.exit_code();
}
