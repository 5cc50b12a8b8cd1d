// Columns out of files that hold tensors: rows stay where they are if they lie there one by one, and are
// unpacked once, into memory or a file of the cache, if they do not.
#pragma once

#include <string>
#include <vector>

#include "ebb/data/row_store.hpp"
#include "ebb/data/source.hpp"

namespace ebb::data {

// Rows of an .npy file that stay in it: C order, any type but bool.
Source npy_rows(const std::string& path);
// Of several, one after the other: rows of one shape and type.
Source npy_rows(const std::vector<std::string>& paths);
// An array of an .npz file; one that is deflated is unpacked.
Source npz_rows(const std::string& path, const std::string& name, StoreOptions options = {});
// A tensor of a .safetensors file: any type but bool.
Source safetensors_rows(const std::string& path, const std::string& name);
// An idx file; a .gz is unpacked.
Source idx_rows(const std::string& path, StoreOptions options = {});

// Such rows that lie in their file, in memory from now on where the options say so; others as they are.
Source held(const Source& rows, const StoreOptions& options);

}  // namespace ebb::data
