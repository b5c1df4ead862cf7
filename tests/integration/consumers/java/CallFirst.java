/** Calls the class of a README. */
final class CallFirst {
  private CallFirst() {}

  public static void main(String[] arguments) {
    FirstCall.run(arguments[0]);
  }
}
