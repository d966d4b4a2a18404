func.func @f() attributes {x = "abc} {
  return
}
