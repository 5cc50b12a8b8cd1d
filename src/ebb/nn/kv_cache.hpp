// The keys and values of the positions that a transformer has read: all that later ones look at. With
// it a token costs one pass of one position, however long ago the text before it was read.
//
//   nn::KvCache cache = nn::kv_cache(gpt, 1024);          // taken from the budget, all at once
//   gpt.states(prompt, cache);                            // reads the prompt
//   Tensor h = gpt.states(next, cache);                   // one token more: (1, 1, width)
//
// What is computed with it is, to the bit, what the whole text would give. Of a model that looks
// back only so far (TransformerOptions::window) no more than that is kept: older positions are dropped by
// tiles of the attention's keys, so that its sums go on in the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/tensor/tensor.hpp"

namespace ebb::nn {

struct KvCacheOptions {
  int layers = 1;
  std::int64_t width = 1;      // of the keys of one position: all heads of them
  std::int64_t context = 1;    // positions that can be read
  std::int64_t window = 0;     // how far a position looks back; 0: all the way
  std::int64_t at_once = 128;  // positions that one pass may add
  DType dtype = DType::f32;
};

class KvCache {
 public:
  explicit KvCache(const KvCacheOptions& options);

  std::int64_t length() const { return length_; }  // positions read
  std::int64_t context() const { return options_.context; }
  std::int64_t at_once() const { return options_.at_once; }
  std::uint64_t bytes() const;
  void clear() { first_ = length_ = 0; }  // the memory stays

  // For models. A pass over so many positions: begin, add of every layer, end.
  void begin(std::int64_t positions);
  struct Seen {
    Tensor keys, values;  // (1, positions, width); valid until the next pass
    std::int64_t offset;  // the first new position among them
  };
  Seen add(int layer, const Tensor& keys, const Tensor& values);  // (1, positions, width)
  void end();

 private:
  void drop_old();
  KvCacheOptions options_;
  std::int64_t rows_ = 0;                 // that there is memory for
  std::int64_t first_ = 0;                // the position of row 0
  std::int64_t length_ = 0, adding_ = 0;  // positions
  std::vector<Tensor> keys_, values_;     // (rows, width), one a layer
};

}  // namespace ebb::nn
