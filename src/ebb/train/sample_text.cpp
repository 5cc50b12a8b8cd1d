#include "ebb/train/sample_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/text/utf8_stream.hpp"
#include "ebb/train/run/stop_signal.hpp"

namespace ebb::train {
namespace {

constexpr std::size_t kLongestPass = 128;  // positions that a reader takes at once

// What the text begins with; without a prompt a line break, or where the model knows none its first token.
std::vector<std::int32_t> beginning(const data::Tokenizer& tokenizer, const std::string& prompt) {
  try {
    const Tensor ids = tokenizer.encode(prompt.empty() ? "\n" : prompt);
    const auto all = ids.data<std::int32_t>();
    if (!all.empty()) return {all.begin(), all.end()};
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    if (!prompt.empty()) throw Error(fmt::format("output.prompt: {}", e.what()));
  }
  return {0};
}

}  // namespace

std::string sample_text(const Model& model, const data::Tokenizer& tokenizer,
                        const OutputConfig& output, const SampleRun& run) {
  std::vector<std::int32_t> ids = beginning(tokenizer, output.prompt);
  nn::GenerateOptions options{.tokens = output.sample_tokens,
                              .temperature = output.temperature,
                              .seed = run.seed,
                              .when_full = nn::WhenFull::slide};
  std::unique_ptr<nn::Reader> reader = model.reader();
  if (run.trial) {
    options.tokens = std::min<std::int64_t>(2, options.tokens);
    // A text that slides is read anew in passes as long as they come.
    const auto context = static_cast<std::size_t>(reader->context());
    const std::size_t whole = ids.size() + static_cast<std::size_t>(output.sample_tokens);
    if (context > 0 && whole > context)
      ids.resize(std::max(ids.size(), std::min(context, kLongestPass)), ids[0]);
  }
  nn::Generation generation(std::move(reader), ids, options);
  text::Utf8Stream out;
  std::string text = output.prompt;
  for (const std::int32_t id : generation) {
    if (StopSignal::asked()) break;
    text += out.put(tokenizer.piece(id));
  }
  return text + out.finish();
}

}  // namespace ebb::train
