// Text from a language model, a token at a time.
//
//   for (std::int32_t id : nn::generate(gpt, prompt, {.tokens = 200, .temperature = 0.8, .top_k = 40}))
//     std::cout << tokenizer.piece(id) << std::flush;
//
// The prompt is read once, in a few passes; after it a token costs one pass of one position, however long
// the text has become (kv_cache.hpp; of a recurrent model, its states). What a model reads this way gives,
// to the bit, the logits of the whole text; draws are counted (sample.hpp). So the text is a function of
// model, prompt and options alone.
//
// Memory (keys, values, what sampling sorts) is taken when generate() is called, from the budget; a pass
// takes what its activations need. Between the steps of a compiled function both may come out of what is
// promised to these: make a memory::Borrowing first. The model must stay, and stay as it is, while text is
// generated.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ebb/nn/recurrent_models.hpp"
#include "ebb/nn/sample.hpp"
#include "ebb/nn/transformer.hpp"

namespace ebb::nn {

// What is done when a model has no position left for the next token.
enum class WhenFull : std::uint8_t {
  stop,  // the text ends
  slide  // the older half is forgotten: the newer one is read again, as a text of its own
};

struct GenerateOptions {
  std::int64_t tokens = 100;  // at most
  double temperature = 1;     // these as in SampleOptions
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> stop = {};  // tokens that end the text, and are not given
  std::int64_t context = 0;  // positions to take memory for; 0: all the model was made for
  WhenFull when_full = WhenFull::stop;
};

// A language model in the middle of a text.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual std::int64_t vocabulary() const = 0;
  virtual std::int64_t context() const = 0;  // positions of a text; 0: any number
  virtual std::int64_t length() const = 0;   // read so far
  // Reads on. Where it throws, length() tells how far it came.
  virtual void read(std::span<const std::int32_t> ids) = 0;
  virtual Tensor logits() const = 0;  // of what follows, (1, vocabulary)
  virtual void forget() = 0;          // a new text begins
};
std::unique_ptr<Reader> reader(const Gpt& model, std::int64_t context = 0);
// Only a model with attention has an end, and takes memory by positions: `context` of them, 0: 1024.
template <class Recurrent>
std::unique_ptr<Reader> reader(const RecurrentLm<Recurrent>& model, std::int64_t context = 0);

// A text that comes into being: for range-for, once, or by next().
class Generation {
 public:
  enum class End : std::uint8_t { none, tokens, stop, context };  // why there is no more

  Generation(std::unique_ptr<Reader> reader, std::span<const std::int32_t> prompt,
             const GenerateOptions& options);
  // The next token; none at the end. Where it throws (OutOfMemory), it may be called again.
  std::optional<std::int32_t> next();
  End ended() const { return end_; }

  class Iterator {
   public:
    using value_type = std::int32_t;
    using difference_type = std::ptrdiff_t;
    std::int32_t operator*() const { return *id_; }
    Iterator& operator++() {
      id_ = text_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !id_; }

   private:
    friend class Generation;
    explicit Iterator(Generation& text) : text_(&text), id_(text.next()) {}
    Generation* text_;
    std::optional<std::int32_t> id_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  bool make_room();
  std::unique_ptr<Reader> reader_;
  GenerateOptions options_;
  Sampler sampler_;
  std::vector<std::int32_t> text_;  // what the reader holds, and after it what it is to read next
  std::int64_t first_ = 0;          // the reader's position of the first of it
  std::int64_t made_ = 0;
  End end_ = End::none;
};

Generation generate(const Gpt& model, std::span<const std::int32_t> prompt,
                    const GenerateOptions& options = {});
template <class Recurrent>
Generation generate(const RecurrentLm<Recurrent>& model, std::span<const std::int32_t> prompt,
                    const GenerateOptions& options = {}) {
  return Generation(reader(model, options.context), prompt, options);
}

}  // namespace ebb::nn
