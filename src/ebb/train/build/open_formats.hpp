// What open_files.cpp is made of: formats with rules of their own, and what several of them need.
#pragma once

#include <string>
#include <vector>

#include "ebb/data/row_store.hpp"
#include "ebb/train/build/open_files.hpp"

namespace ebb::train {

OpenedRows open_csv(const DataConfig& d, const RowFiles& files, const Reading* known,
                    const How& how);
OpenedRows open_jsonl(const Config& config, const RowFiles& files, const Reading* known,
                      const How& how);
// Windows of tokens: of text files, or of a field of objects a line.
OpenedRows open_text(const DataConfig& d, const RowFiles& files, const Reading* known,
                     const How& how);

data::StoreOptions store_of(const DataConfig& d, const How& how);
// Rows that lie in their file one by one: there, or in memory where a budget has room for them or the config says so.
data::Source placed(const data::Source& rows, const DataConfig& d, const How& how);
const std::string& only_path(const std::vector<std::string>& paths, const char* key);
void refuse_empty(const Dataset& rows, const std::string& path);
std::uint64_t bytes_of(const std::vector<std::string>& paths);  // of the files, as they lie

// Labels are 0 to the number of classes - 1. `rows` have no other column, or every example would be read.
std::int64_t count_classes(const Dataset& rows, const std::string& column, const std::string& path);
// A column whose batches hold another type, each number times `factor`.
Dataset with_type(const Dataset& rows, const std::string& column, DType to, double factor = 1);
// The array of that name, or where none is said the only one beside `other`.
std::string array_name(const std::vector<std::string>& names, const std::string& asked,
                       const std::string& other, const char* key, const std::string& path);

}  // namespace ebb::train
