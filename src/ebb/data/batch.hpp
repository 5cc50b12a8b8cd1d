// Some rows of a data set: tensors by name, with one first axis. b["image"], b["label"].
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb {

using Names = std::vector<std::string>;

// The place of `name`; where there is none, an Error that lists the names there are.
std::size_t index_of(const Names& names, std::string_view name);

// Values by name, in the order they were given. The names are shared, so that a loop over batches
// copies none.
template <class T>
class Named {
 public:
  Named();
  Named(std::shared_ptr<const Names> names, std::vector<T> values);
  Named(std::initializer_list<std::pair<std::string, T>> items);
  Named(const Named&);
  Named(Named&&) noexcept;
  Named& operator=(const Named&);
  Named& operator=(Named&&) noexcept;
  ~Named();

  const T& operator[](std::string_view name) const;
  const Names& names() const { return *names_; }
  const std::shared_ptr<const Names>& shared_names() const { return names_; }
  const std::vector<T>& values() const { return values_; }

 protected:
  std::shared_ptr<const Names> names_;
  std::vector<T> values_;
};

class Batch : public Named<Tensor> {
 public:
  using Named::Named;
  std::int64_t rows() const { return values_.empty() ? 0 : values_[0].dim(0); }

  // Where it is a part (Dataset::part): its first row is this one, of so many in the whole batch.
  std::int64_t first_row() const { return first_row_; }
  std::int64_t whole_rows() const { return whole_rows_ < 0 ? rows() : whole_rows_; }
  void set_part(std::int64_t first_row, std::int64_t whole_rows) {
    first_row_ = first_row;
    whole_rows_ = whole_rows;
  }

 private:
  std::int64_t first_row_ = 0, whole_rows_ = -1;  // -1: it is the whole
};

// What the tensors of a batch are, before there is one. A step that was compiled for it takes any
// smaller batch, too, in the memory that was promised: the ragged last one of an epoch, or shorter
// sequences.
class BatchSpec : public Named<Spec> {
 public:
  using Named::Named;
  bool operator==(const BatchSpec& other) const;

  BatchSpec rows_up_to(std::int64_t rows) const;       // batches of so many rows, or fewer
  BatchSpec lengths_up_to(std::int64_t length) const;  // the second axis of those that have one

  // Bytes that are held while such batches are dealt out: by a Dataset, what it makes ahead, the
  // order of a shuffle; else one batch, which the program makes itself.
  BatchSpec dealt_with(std::uint64_t bytes) const;
  std::uint64_t dealing_bytes() const { return dealing_bytes_; }

  // That among them are batches of so many rows, such as an epoch's last one: planned before the first
  // step, too.
  BatchSpec with_last(std::int64_t rows) const;
  std::int64_t last_rows() const { return last_rows_; }  // 0: none is known

  // That they are parts (Dataset::part) of batches of so many rows, the last of so many; and those batches.
  BatchSpec as_part(std::int64_t whole_rows, std::int64_t whole_last) const;
  BatchSpec of_whole() const;

 private:
  BatchSpec with_axis(int axis, std::int64_t size) const;
  std::uint64_t dealing_bytes_ = 0;  // 0: the program makes them
  std::int64_t last_rows_ = 0;
  std::int64_t whole_rows_ = -1, whole_last_ = 0;  // -1: they are the whole
};

namespace data {
// What batches, and what it takes to deal them out, are drawn from.
memory::Promise& promise();
}  // namespace data

}  // namespace ebb
