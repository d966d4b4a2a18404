func.func @f() attributes {a = 300 : i8} {
  return
}
