// What stands behind a Dataset's settings. For its own sources.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "ebb/data/dataset.hpp"
#include "ebb/data/token_batches.hpp"

namespace ebb {

// What a batch becomes, after what `before` has made of it.
struct Dataset::Mapping {
  Map function;
  std::uint64_t bytes = 0;
  std::shared_ptr<const Mapping> before;
};

// Batches by tokens; how long rows are is found when it is first asked for.
struct Dataset::Tokens {
  explicit Tokens(std::int64_t wanted) : tokens(wanted) {}
  std::int64_t tokens;
  std::mutex lock;
  std::optional<data::TokenBatches> found;
};

// How the rows of a batch come together, and what that takes.
class Dataset::Gather {
 public:
  explicit Gather(const Dataset& data, data::Lying where = data::Lying::as_they_do)
      : data_(data), where_(where) {}

  // Rows [begin, end) of the given order, or of the set's own, as batches are handed out; lists of this
  // length, or (0) as long as the longest of them asks for.
  Batch made(const std::uint32_t* order, std::int64_t begin, std::int64_t end,
             std::int64_t length) const {
    return made(order, begin, end, std::vector(data_.columns_.size(), length));
  }
  // The rows of these that are the data set's part.
  Batch dealt(const std::uint32_t* order, std::int64_t begin, std::int64_t end) const;
  BatchSpec unmapped(std::int64_t rows,
                     std::int64_t length) const;    // before any map; 0: longest_list()
  const data::TokenBatches& token_batches() const;  // made when they are first asked for
  std::int64_t longest_list() const;                // 0: there are none
  std::uint64_t walking_bytes() const;

 private:
  using Lengths =
      std::vector<std::int64_t>;  // of each column's lists; 0: as the longest of them asks
  Batch made(const std::uint32_t* order, std::int64_t begin, std::int64_t end,
             const Lengths& lengths) const;
  Lengths lengths_of(const std::uint32_t* order, std::int64_t begin, std::int64_t end) const;
  std::vector<Tensor> stored(const std::uint32_t* order, std::int64_t begin,
                             std::int64_t end) const;
  Batch padded(std::vector<Tensor> stored, const Lengths& lengths) const;
  void read_files(const std::uint32_t* order, std::int64_t first, std::vector<Tensor>& to) const;
  std::int64_t most_rows() const;  // of a batch
  std::uint64_t batch_bytes(std::int64_t rows, std::int64_t length) const;
  std::uint64_t largest_batch() const;

  const Dataset& data_;
  const data::Lying where_;  // for what walking takes; batches are made of what there is
};

}  // namespace ebb
