#include <fmt/core.h>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/text/bpe.hpp"
#include "ebb/text/vocabulary_file.hpp"

namespace ebb::app {
namespace {

struct Vocab {
  std::string text, out = "vocabulary.txt";
  std::int32_t size = 4096;

  void run() const {
    check_out("vocab", text, out);
    const text::Bpe bpe = text::train_bpe_file(text, {.vocabulary = size});
    text::save_vocabulary(bpe, out);
    say(fmt::format("wrote {}: {} tokens; use it with data.vocabulary = \"{}\"\n", out, bpe.size(),
                    out));
  }
};

}  // namespace

void add_vocab(CLI::App& app) {
  auto vocab = std::make_shared<Vocab>();
  CLI::App* c = app.add_subcommand("vocab", "learn a byte-pair vocabulary from a text");
  c->group(group::kMore);
  c->footer(
      "ebb vocab book.txt --size 4096 --out vocabulary.txt\n"
      "ebb train gpt.toml --set data.vocabulary=vocabulary.txt\n");
  c->add_option("text", vocab->text, "a text file")->required()->type_name(value::kFile);
  c->add_option("--size", vocab->size, "tokens, the 256 bytes among them; 4096")
      ->check(number_from(257, 1 << 20))
      ->type_name(value::kNumber);
  c->add_option("--out", vocab->out, "the file to write; vocabulary.txt")->type_name(value::kFile);
  add_quiet(*c);
  c->callback([vocab] { vocab->run(); });
}

}  // namespace ebb::app
