#include "ebb/nn/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb::nn {
namespace {

constexpr std::int64_t kAtOnce = 128;  // positions of a pass: products are as fast as of more
constexpr std::int64_t kRecurrentContext = 1024;

Tensor one_row(std::span<const std::int32_t> ids) {
  return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
}

// (1, length, width) → (1, width)
Tensor last_position(const Tensor& h) {
  return h.viewed({h.dim(1), h.dim(2)}).rows(h.dim(1) - 1, h.dim(1));
}

// Calls pass(ids) for the parts of a text.
template <class Pass>
void read_in_passes(std::span<const std::int32_t> ids, std::int64_t at_once, Pass&& pass) {
  const Evaluation evaluation;
  const Tape::Pause pause;
  while (!ids.empty()) {
    const auto part = ids.first(std::min(ids.size(), static_cast<std::size_t>(at_once)));
    pass(one_row(part));
    ids = ids.subspan(part.size());
  }
}

void check_read(const Tensor& states) {
  if (!states) throw Error("generate: nothing was read yet that something could follow");
}

class GptReader final : public Reader {
 public:
  GptReader(const Gpt& model, std::int64_t context)
      : model_(model), cache_(kv_cache(model, context, kAtOnce)) {}
  std::int64_t vocabulary() const override { return model_.options.vocabulary; }
  std::int64_t context() const override { return cache_.context(); }
  std::int64_t length() const override { return cache_.length(); }
  void forget() override {
    cache_.clear();
    states_ = Tensor();
  }
  void read(std::span<const std::int32_t> ids) override {
    read_in_passes(ids, cache_.at_once(), [&](const Tensor& part) {
      states_ = Tensor();  // before the next are made
      states_ = model_.states(part, cache_);
    });
  }
  Tensor logits() const override {
    check_read(states_);
    const Tape::Pause pause;
    return model_.logits(last_position(states_));
  }

 private:
  const Gpt& model_;
  KvCache cache_;
  Tensor states_;  // of the last pass
};

template <class Recurrent>
class RecurrentReader final : public Reader {
 public:
  RecurrentReader(const RecurrentLm<Recurrent>& model, std::int64_t context) : model_(model) {
    if (!model.attn) return;
    const TransformerOptions& o = model.attn->options;
    cache_.emplace(KvCacheOptions{.width = o.width / o.heads * o.key_heads(),
                                  .context = context ? context : kRecurrentContext,
                                  .at_once = kAtOnce,
                                  .dtype = model.tokens.weight.spec().dtype});
  }
  std::int64_t vocabulary() const override { return model_.head.weight.spec().shape[0]; }
  std::int64_t context() const override { return cache_ ? cache_->context() : 0; }
  std::int64_t length() const override { return length_; }
  void forget() override {
    states_ = {};
    outputs_ = Tensor();
    length_ = 0;
    if (cache_) cache_->clear();
  }
  void read(std::span<const std::int32_t> ids) override {
    read_in_passes(ids, kAtOnce, [&](const Tensor& part) { pass(part); });
  }
  Tensor logits() const override {
    check_read(outputs_);
    const Tape::Pause pause;
    return model_.head(last_position(outputs_));
  }

 private:
  void pass(const Tensor& ids) {
    outputs_ = Tensor();  // before the next are made
    auto [h, last] = model_.rnn(model_.tokens(ids), {.initial = states_});
    if (cache_) {
      cache_->begin(ids.dim(1));
      h = h + (*model_.attn)(h, *cache_, 0);
      cache_->end();
    }
    outputs_ = std::move(h);
    states_ = std::move(last);
    length_ += ids.dim(1);
  }

  const RecurrentLm<Recurrent>& model_;
  typename Recurrent::States states_;
  Tensor outputs_;  // of the last pass
  std::optional<KvCache> cache_;
  std::int64_t length_ = 0;
};

SampleOptions sampling(const GenerateOptions& o) {
  return {.temperature = o.temperature, .top_k = o.top_k, .top_p = o.top_p, .seed = o.seed};
}

}  // namespace

std::unique_ptr<Reader> reader(const Gpt& model, std::int64_t context) {
  return std::make_unique<GptReader>(model, context);
}

template <class Recurrent>
std::unique_ptr<Reader> reader(const RecurrentLm<Recurrent>& model, std::int64_t context) {
  return std::make_unique<RecurrentReader<Recurrent>>(model, context);
}
template std::unique_ptr<Reader> reader(const LstmLm&, std::int64_t);
template std::unique_ptr<Reader> reader(const GruLm&, std::int64_t);

Generation::Generation(std::unique_ptr<Reader> reader, std::span<const std::int32_t> prompt,
                       const GenerateOptions& options)
    : reader_(std::move(reader)),
      options_(options),
      sampler_(sampling(options), reader_->vocabulary()),
      text_(prompt.begin(), prompt.end()) {
  if (options.tokens < 0)
    throw Error(fmt::format("generate: {} tokens, expected 0 or more", options.tokens));
  if (prompt.empty()) throw Error("generate: the prompt is empty; give at least one token");
  const auto context = static_cast<std::size_t>(reader_->context());
  if (context > 0 && prompt.size() > context && options.when_full == WhenFull::stop)
    throw Error(
        fmt::format("generate: the prompt has {} tokens, the context {}; shorten it, or let it "
                    "slide (WhenFull::slide)",
                    prompt.size(), context));
}

std::optional<std::int32_t> Generation::next() {
  if (end_ == End::none && made_ == options_.tokens) end_ = End::tokens;
  if (end_ == End::none && !make_room()) end_ = End::context;
  if (end_ != End::none) return std::nullopt;

  const auto unread =
      std::span(text_).subspan(static_cast<std::size_t>(reader_->length() - first_));
  reader_->read(unread);
  const std::int32_t id = sampler_(reader_->logits(), static_cast<std::uint64_t>(made_));
  if (std::find(options_.stop.begin(), options_.stop.end(), id) != options_.stop.end()) {
    end_ = End::stop;
    return std::nullopt;
  }
  ++made_;
  text_.push_back(id);
  return id;
}

// Whether the reader can take what is to be read.
bool Generation::make_room() {
  const auto context = static_cast<std::size_t>(reader_->context());
  if (context == 0) {  // it never looks back
    text_.erase(text_.begin(),
                text_.begin() + static_cast<std::ptrdiff_t>(reader_->length() - first_));
    first_ = reader_->length();
    return true;
  }
  if (text_.size() <= context) return true;
  if (options_.when_full == WhenFull::stop) return false;
  const std::size_t kept = std::max<std::size_t>(1, context / 2);
  text_.erase(text_.begin(), text_.end() - static_cast<std::ptrdiff_t>(kept));
  reader_->forget();
  return true;
}

Generation generate(const Gpt& model, std::span<const std::int32_t> prompt,
                    const GenerateOptions& options) {
  return Generation(reader(model, options.context), prompt, options);
}

}  // namespace ebb::nn
