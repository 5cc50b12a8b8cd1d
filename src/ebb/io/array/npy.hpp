// NumPy's .npy files, read strictly: a file is what it claims to be, to the byte, or it is refused.
//
// f16 f32 f64 i32 i64 u8 bool, any rank up to 8. Big-endian and Fortran-ordered files are
// converted. What Ebb has no type for (structured, object, string, complex, other widths) is
// refused by name.
#pragma once

#include <string>

#include "ebb/base/files/file.hpp"
#include "ebb/tensor/tensor.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb {

Tensor load_npy(const std::string& path);

// Format version 1.0, C order. Atomic: a failure leaves the file that was there. bf16 is refused,
// since NumPy has no such type; cast it to f32 first, which loses nothing.
void save_npy(const std::string& path, const Tensor& tensor);

// A variable, wherever its bytes lie, in pieces of at most 1 MiB. Loading gives it the value of a file
// of its dtype and shape, or throws and leaves it as it was. (Files in Fortran order are read whole.)
void save_npy(const std::string& path, const Variable& variable);
void load_npy(const std::string& path, Variable& variable);

// A file too large to hold, by rows of its first axis. Files in Fortran order have no such rows and
// are refused.
class NpyReader {
 public:
  explicit NpyReader(const std::string& path);
  const Spec& spec() const { return spec_; }
  Tensor rows(std::int64_t begin, std::int64_t end);
  std::uint64_t data_offset() const { return data_; }  // where in the file its first row begins
  bool swapped() const { return swapped_; }            // the other byte order than this machine's

 private:
  File file_;
  Spec spec_;
  std::uint64_t data_ = 0;  // where in the file it begins
  bool swapped_ = false;
};

// Written row by row; commit() puts it in place when all rows are there.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, const Spec& spec);
  void append(const Tensor& rows);
  void commit();

 private:
  AtomicFile file_;
  Spec spec_;
  std::uint64_t written_ = 0;
};

}  // namespace ebb
