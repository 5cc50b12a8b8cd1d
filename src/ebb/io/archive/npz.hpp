// NumPy's .npz files: .npy arrays by name in a zip archive, stored (numpy.savez) or deflated
// (numpy.savez_compressed).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ebb/io/archive/zip.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb {

class NpzReader {
 public:
  explicit NpzReader(const std::string& path);
  const std::vector<std::string>& names() const { return names_; }  // without ".npy"

  Spec spec(const std::string& name);    // from the array's header
  Tensor load(const std::string& name);  // an Error that lists the names where there is none

  // All bytes of an array in C order, in pieces of whole elements.
  using Sink = std::function<void(std::span<const std::byte> bytes)>;
  void read(const std::string& name, const Sink& sink);

  // Where the rows of an array lie in the file as they are: stored, C order, no bool. None: they do not.
  struct Rows {
    Spec spec;
    std::uint64_t offset = 0;
    bool swapped = false;
  };
  std::optional<Rows> rows(const std::string& name);

 private:
  const io::ZipMember& member(const std::string& name) const;
  std::string label(const std::string& name) const;

  io::ZipReader zip_;
  std::vector<std::string> names_;
};

// Stored, one behind the other. Atomic: a failure leaves the file that was there.
void save_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace ebb
